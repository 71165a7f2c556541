#include "sandbox/trees/snapshot_tar.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

class SnapshotTarTest : public testing::Test {
 protected:
  std::string At(const std::string& relative) const { return folder_.path() + "/" + relative; }
  void Make(const std::string& relative, const std::string& content = "x") const {
    fs::create_directories(fs::path(At(relative)).parent_path());
    std::ofstream(At(relative)) << content;
  }
  absl::Status Write(const std::vector<TarPart>& parts, const TarLimits& limits = {}) {
    archive_.clear();
    return WriteTar(parts, limits, [this](std::string_view bytes) {
      archive_ += bytes;
      return absl::OkStatus();
    });
  }
  // The names in the archive, as the machine's tar lists them.
  std::vector<std::string> Names() const {
    std::ofstream(At("archive.tar")) << archive_;
    std::vector<std::string> names;
    FILE* const tar = popen(("tar -tf " + At("archive.tar")).c_str(), "r");
    char* line = nullptr;
    size_t capacity = 0;
    for (ssize_t length = 0; (length = getline(&line, &capacity, tar)) > 0;) {
      names.emplace_back(line, static_cast<size_t>(length - 1));
    }
    free(line);
    EXPECT_EQ(pclose(tar), 0) << "tar refused the archive";
    return names;
  }

  const TestFolder folder_;
  std::string archive_;
};

TEST_F(SnapshotTarTest, MergesLayersAndMarksWhatTheyDelete) {
  Make("top/kept", "new");
  Make("top/both/a");
  Make("below/kept", "old");
  Make("below/both/b");
  Make("below/gone");
  ASSERT_EQ(mknod(At("top/gone").c_str(), S_IFCHR, makedev(0, 0)), 0);
  const std::vector<std::string> layers = {At("top"), At("none"), At("below")};
  ASSERT_TRUE(Write({{.name = "root", .layers = layers, .marks_deleted = true}}).ok());
  EXPECT_EQ(Names(), (std::vector<std::string>{"root/", "root/.wh.gone", "root/both/", "root/both/a", "root/both/b",
                                               "root/kept"}));
  EXPECT_NE(archive_.find("new"), std::string::npos);
  EXPECT_EQ(archive_.find("old"), std::string::npos);
  ASSERT_TRUE(Write({{.name = "work", .layers = layers}}).ok());
  EXPECT_EQ(std::ranges::count(Names(), "work/.wh.gone"), 0);
}

TEST_F(SnapshotTarTest, AnAgentForgesNoMark) {
  for (const char* const name : {"work/.wh.passwd", "work/etc/.wh..wh..opq", "work/.whale"}) Make(name);
  ASSERT_EQ(mknod(At("work/.wh..opq").c_str(), S_IFCHR, makedev(0, 0)), 0);
  ASSERT_TRUE(Write({{.name = "root", .layers = {At("work")}, .marks_deleted = true}}).ok());
  EXPECT_EQ(Names(), (std::vector<std::string>{"root/", "root/.whale", "root/etc/"}));
  ASSERT_TRUE(Write({{.name = "work", .layers = {At("work")}}}).ok());
  EXPECT_EQ(std::ranges::count(Names(), "work/.wh.passwd"), 1) << "a folder without marks has such files";
}

TEST_F(SnapshotTarTest, WritesFoldersOfAnyDepth) {
  constexpr int kLevels = 1'900;
  Make("work/file");
  std::string deep = "work";
  for (int i = 0; i < kLevels; ++i) {
    deep += "/a";
    ASSERT_EQ(mkdir(At(deep).c_str(), 0755), 0);
  }
  ASSERT_TRUE(Write({{.name = "work", .layers = {At("work")}}}).ok());
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), kLevels + 2u);
  EXPECT_EQ(names[kLevels], deep + "/");
}

TEST_F(SnapshotTarTest, LeavesOutTheRightsOfSetuidFiles) {
  Make("work/program");
  ASSERT_EQ(chmod(At("work/program").c_str(), 06755), 0);
  ASSERT_TRUE(Write({{.name = "work", .layers = {At("work")}}}).ok());
  EXPECT_EQ(archive_.substr(512 + 100, 7), "0000755");
}

// As one that an agent linked to, and cannot read.
TEST_F(SnapshotTarTest, LeavesOutFilesOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Make("work/own");
  Make("secret", "of root");
  fs::create_hard_link(At("secret"), At("work/linked"));
  ASSERT_EQ(chown(At("work/own").c_str(), 65534, 65534), 0);
  ASSERT_TRUE(Write({{.name = "work", .layers = {At("work")}}}, {.only_of = 65534}).ok());
  EXPECT_EQ(Names(), (std::vector<std::string>{"work/", "work/own"}));
}

TEST_F(SnapshotTarTest, FilesHaveALimitThatHolesCountFor) {
  Make("work/a", "12345");
  Make("work/sparse");
  fs::resize_file(At("work/sparse"), uintmax_t{1} << 40);
  const std::vector<TarPart> parts = {{.name = "work", .layers = {At("work")}}};
  const absl::Status rejected = Write(parts, {.file_bytes = 1 << 20});
  EXPECT_TRUE(absl::IsResourceExhausted(rejected)) << rejected;
  EXPECT_NE(rejected.message().find("work/sparse"), std::string::npos) << rejected;
  EXPECT_LT(archive_.size(), 4096u) << "no zero of the hole was written";
  fs::resize_file(At("work/sparse"), 5);
  EXPECT_TRUE(Write(parts, {.file_bytes = 10}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Write(parts, {.file_bytes = 9})));
}

TEST_F(SnapshotTarTest, AFolderOfTooManyNamesIsRejectedByName) {
  for (int i = 0; i < 100; ++i) Make(absl::StrCat("work/many/", i));
  const std::vector<TarPart> parts = {{.name = "work", .layers = {At("work")}}};
  const absl::Status rejected = Write(parts, {.name_bytes = 2'000});
  EXPECT_TRUE(absl::IsResourceExhausted(rejected)) << rejected;
  EXPECT_NE(rejected.message().find("work/many"), std::string::npos) << rejected;
  // The names of a folder that was left take no memory.
  for (int i = 0; i < 100; ++i) Make(absl::StrCat("work/", i, "/a"));
  fs::remove_all(At("work/many"));
  EXPECT_TRUE(Write(parts, {.name_bytes = 100 * 60}).ok());
}

TEST_F(SnapshotTarTest, LeavesOutWhatIngotMayNotRead) {
  for (const char* const name : {"work/file", "work/folder/a", "work/shut"}) Make(name);
  const auto other = static_cast<uid_t>(geteuid() == 0 ? 65534 : geteuid());
  for (const char* const name : {"work/folder", "work/shut"}) {
    ASSERT_EQ(chmod(At(name).c_str(), 0), 0);
  }
  setfsuid(other);
  const absl::Status written = Write({{.name = "work", .layers = {At("work")}}});
  setfsuid(geteuid());
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(Names(), (std::vector<std::string>{"work/", "work/file", "work/folder/"}));
  chmod(At("work/folder").c_str(), 0755);
}

}  // namespace
}  // namespace ingot::sandbox
