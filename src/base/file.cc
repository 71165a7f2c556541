#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ingot::base {
namespace {

constexpr size_t kReadBytes = 64 * 1024;

struct Descriptor {
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  const int fd;
};

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot read '", path, "': ", std::strerror(error));
  const bool missing = error == ENOENT || error == ENOTDIR;
  return missing ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat what{};
  if (file.fd < 0 || ::fstat(file.fd, &what) != 0) return CannotRead(path, errno);
  if (S_ISDIR(what.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "': it is a folder, not a file"));
  }
  std::string text;
  for (std::string buffer(kReadBytes, '\0');;) {
    const ssize_t got = ::read(file.fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) return text;
    text.append(buffer, 0, static_cast<size_t>(got));
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read '", path, "': it has more than the ", max_bytes, " bytes it may have"));
    }
  }
}

}  // namespace ingot::base
