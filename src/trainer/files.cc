#include "trainer/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/checksum.h"

namespace ingot::trainer {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open", path);
  std::string contents;
  std::vector<char> block(size_t{1} << 16);
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) return contents;
    contents.append(block.data(), static_cast<size_t>(got));
  }
}

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open", path);
  FileDigest digest;
  base::StreamingChecksum checksum;
  std::vector<std::byte> block(size_t{1} << 20);
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0) break;
    checksum.Update(std::span<const std::byte>(block.data(), static_cast<size_t>(got)));
    digest.bytes += static_cast<uint64_t>(got);
  }
  digest.checksum = checksum.Digest();
  return digest;
}

}  // namespace ingot::trainer
