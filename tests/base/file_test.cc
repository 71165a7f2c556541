#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ingot::base {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() : dir_(std::filesystem::path(testing::TempDir()) / ("file_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(dir_);
  }
  ~FileTest() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  const std::filesystem::path dir_;
};

TEST_F(FileTest, ReadsAWholeFileOrPipe) {
  const std::string text = std::string(200'000, 'a') + '\0' + "\r\nend";
  std::ofstream(Path("some"), std::ios::binary) << text;
  EXPECT_EQ(ReadFile(Path("some")).value(), text);
  std::ofstream(Path("empty")) << "";
  EXPECT_EQ(ReadFile(Path("empty")).value(), "");
}

TEST_F(FileTest, ErrorsNameThePathAndTheReason) {
  const absl::Status missing = ReadFile(Path("none")).status();
  EXPECT_EQ(missing, absl::NotFoundError("cannot read '" + Path("none") + "': No such file or directory"));
  EXPECT_TRUE(absl::IsNotFound(ReadFile(Path("none/below")).status()));
  std::ofstream(Path("file")) << "12345";
  EXPECT_TRUE(absl::IsNotFound(ReadFile(Path("file/below")).status()));
  const absl::Status folder = ReadFile(dir_.string()).status();
  EXPECT_EQ(folder, absl::InvalidArgumentError("cannot read '" + dir_.string() + "': it is a folder, not a file"));
  EXPECT_TRUE(ReadFile(Path("file"), 5).ok());
  const absl::Status large = ReadFile(Path("file"), 4).status();
  EXPECT_EQ(large,
            absl::InvalidArgumentError("cannot read '" + Path("file") + "': it has more than the 4 bytes it may have"));
}

}  // namespace
}  // namespace ingot::base
