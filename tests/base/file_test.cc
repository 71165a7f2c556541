#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/open_file.h"

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

TEST_F(FileTest, ReadsThePipeOfACommandAndNoNamedOne) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "text", 4), 4);
  close(ends[1]);
  EXPECT_EQ(ReadFile("/dev/fd/" + std::to_string(ends[0])).value(), "text");
  close(ends[0]);
  EXPECT_EQ(ReadFile("/dev/null").value(), "");
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(Path("fifo")).status(),
            absl::InvalidArgumentError("cannot read '" + Path("fifo") + "': it is a named pipe (FIFO), not a file"));
  const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(Path("socket").size(), sizeof(address.sun_path));
  Path("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(Path("socket")).status()));
}

TEST_F(FileTest, NoPathLeadsOutOfAFolder) {
  std::filesystem::create_directories(Path("in/below"));
  std::ofstream(Path("in/below/file")) << "inside";
  std::ofstream(Path("out")) << "outside";
  std::filesystem::create_symlink("below/file", Path("in/inside"));
  std::filesystem::create_symlink("../out", Path("in/outside"));
  std::filesystem::create_symlink(Path("in/below/file"), Path("in/absolute"));
  std::filesystem::create_symlink("..", Path("in/up"));
  const Fd folder(open(Path("in").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const char* const inside : {"below/file", "inside", "below/../below/file"}) {
    const Fd file = OpenBeneath(folder.get(), inside, O_RDONLY);
    ASSERT_TRUE(file.valid()) << inside;
    EXPECT_EQ(ReadOpenFile(file, inside, 100).value(), "inside");
  }
  for (const char* const outside : {"../out", "outside", "absolute", "up/out", "/etc/passwd"}) {
    EXPECT_FALSE(OpenBeneath(folder.get(), outside, O_RDONLY).valid()) << outside;
    EXPECT_EQ(errno, EXDEV) << outside;
  }
  EXPECT_TRUE(OpenBeneath(folder.get(), "below/file", O_RDONLY, PathLinks::kNone).valid());
  for (const char* const link : {"inside", "up/in/below/file", "outside"}) {
    EXPECT_FALSE(OpenBeneath(folder.get(), link, O_RDONLY, PathLinks::kNone).valid()) << link;
    EXPECT_EQ(errno, ELOOP) << link;
  }
}

TEST_F(FileTest, AReplacementIsWholeOrNone) {
  const std::string path = Path("file");
  const auto entries = [&] { return std::distance(std::filesystem::directory_iterator(dir_), {}); };
  ASSERT_EQ(ReplaceFile(path, "first"), absl::OkStatus());
  ASSERT_EQ(ReplaceFile(path, "second"), absl::OkStatus());
  EXPECT_EQ(ReadFile(path).value(), "second");
  EXPECT_EQ(entries(), 1);
  // Readers see the old file until the new one is whole, and for good if it does not become so.
  const absl::Status full = ReplaceFileBy(path, [&](int fd, const std::string& draft) {
    EXPECT_TRUE(draft.starts_with(path + ".") && draft.ends_with(".new")) << draft;
    EXPECT_EQ(WriteAll(fd, "half", draft), absl::OkStatus());
    EXPECT_EQ(ReadFile(path).value(), "second");
    EXPECT_EQ(ReplaceFile(path, "third"), absl::OkStatus()) << "another writer has its own draft";
    EXPECT_EQ(ReadFile(draft).value(), "half");
    return absl::ResourceExhaustedError("full");
  });
  EXPECT_EQ(full, absl::ResourceExhaustedError("full"));
  EXPECT_EQ(ReadFile(path).value(), "third");
  EXPECT_EQ(entries(), 1);
  ASSERT_EQ(ReplaceFile(Path("secret"), "text", {.mode = 0600, .durable = false}), absl::OkStatus());
  struct stat info;
  ASSERT_EQ(stat(Path("secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(FileTest, AReplacementThatFailsNamesTheFile) {
  std::filesystem::create_directories(Path("folder/below"));
  const absl::Status folder = ReplaceFile(Path("folder"), "text");
  EXPECT_FALSE(folder.ok());
  EXPECT_NE(folder.message().find("cannot replace " + Path("folder") + ": "), std::string::npos) << folder;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1) << "no draft is left";
  const absl::Status none = ReplaceFile(Path("none/file"), "text");
  EXPECT_TRUE(absl::IsNotFound(none)) << none;
  EXPECT_NE(none.message().find("cannot create " + Path("none/file")), std::string::npos) << none;
  const absl::Status full = WriteAll(Fd(open("/dev/full", O_WRONLY | O_CLOEXEC)).get(), "text", "/dev/full");
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
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
            absl::InvalidArgumentError("cannot read '" + Path("file") + "': it is larger than the limit of 4 bytes"));
}

}  // namespace
}  // namespace ingot::base
