#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

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

absl::Status Failed(const std::string& verb, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", verb, " ", path));
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

absl::Status WriteFileDurably(const std::string& path, const std::string& contents) {
  const Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) return Failed("create", path);
  for (size_t done = 0; done < contents.size();) {
    const ssize_t written = ::write(file.fd, contents.data() + done, contents.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", path);
    done += static_cast<size_t>(written);
  }
  if (::fsync(file.fd) != 0) return Failed("fsync", path);
  return absl::OkStatus();
}

absl::Status SyncDir(const std::string& dir) {
  const Descriptor file{::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (file.fd < 0) return Failed("open", dir);
  if (::fsync(file.fd) != 0) return Failed("fsync", dir);
  return absl::OkStatus();
}

// Plain rename cannot replace a folder that is not empty.
absl::Status ReplaceFolder(const std::string& from, const std::string& to, const std::string& aside) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const unsigned flags = fs::exists(to, ignored) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0) {
    if (errno != EINVAL) return Failed("rename to", to);
    fs::remove_all(aside, ignored);
    if (flags == RENAME_EXCHANGE && std::rename(to.c_str(), aside.c_str()) != 0) return Failed("move aside", to);
    if (std::rename(from.c_str(), to.c_str()) != 0) return Failed("rename to", to);
  }
  return SyncDir(fs::path(to).parent_path().string());
}

}  // namespace ingot::base
