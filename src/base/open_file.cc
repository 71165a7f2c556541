#include "base/open_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ingot::base {
namespace {

constexpr size_t kReadBytes = 64 * 1024;

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot read '", path, "': ", std::strerror(error));
  const bool missing = error == ENOENT || error == ENOTDIR;
  return missing ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

// Pipes from <(command) and stdin have no directory entry, and their writer already exists.
bool IsNamedPipe(int fd, const struct stat& info) {
  struct statfs place{};
  return S_ISFIFO(info.st_mode) && (fstatfs(fd, &place) != 0 || place.f_type != PIPEFS_MAGIC);
}

// Old container filters return EPERM for unknown system calls.
bool IsUnknownCall(int error) { return error == ENOSYS || error == EPERM; }

// Opens one path component at a time, without following links.
Fd OpenPartByPart(int folder, const std::string& relative, int flags) {
  Fd at(fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (size_t from = 0; at.valid();) {
    const size_t slash = relative.find('/', from);
    const std::string part = relative.substr(from, slash - from);
    if (part == "..") {
      errno = EXDEV;
      return Fd();
    }
    const bool is_last = slash == std::string::npos;
    at = Fd(openat(at.get(), part.empty() ? "." : part.c_str(),
                   (is_last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC));
    if (is_last) break;
    from = slash + 1;
  }
  return at;
}

}  // namespace

const char* KindOfFile(const struct stat& info) {
  switch (info.st_mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a named pipe (FIFO)";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    case S_IFLNK:
      return "a link";
    default:
      return "a file";
  }
}

absl::StatusOr<Fd> OpenToRead(const std::string& path) {
  Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const int error = errno;
  struct stat info{};
  const bool is_socket = !file.valid() && error == ENXIO && stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  if (!file.valid() && !is_socket) return CannotRead(path, error);
  if (file.valid() && fstat(file.get(), &info) != 0) return CannotRead(path, errno);
  if (is_socket || S_ISDIR(info.st_mode) || IsNamedPipe(file.get(), info)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': it is ", KindOfFile(info), ", not a file"));
  }
  if (!S_ISREG(info.st_mode) && fcntl(file.get(), F_SETFL, O_RDONLY) != 0) return CannotRead(path, errno);
  return file;
}

Fd OpenBeneath(int folder, const std::string& relative, int flags, PathLinks links) {
  const bool follows = links == PathLinks::kInside;
  struct open_how how{};
  how.flags = static_cast<uint64_t>(static_cast<unsigned>(flags | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW)));
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (follows ? 0 : RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  for (int tries = 0; tries < 100; ++tries) {
    Fd opened(static_cast<int>(syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof(how))));
    if (opened.valid()) return opened;
    if (IsUnknownCall(errno)) return OpenPartByPart(folder, relative, flags);
    if (errno != EAGAIN && errno != EINTR) return opened;  // EAGAIN = a folder in the path was moved
  }
  return Fd();
}

absl::StatusOr<std::string> ReadOpenFile(const Fd& file, const std::string& path, int64_t max_bytes) {
  std::string text;
  for (std::string buffer(kReadBytes, '\0');;) {
    const ssize_t got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) return text;
    text.append(buffer, 0, static_cast<size_t>(got));
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read '", path, "': it is larger than the limit of ", max_bytes, " bytes"));
    }
  }
}

}  // namespace ingot::base
