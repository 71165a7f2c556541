#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/open_file.h"
#include "base/random.h"

namespace ingot::base {
namespace {

absl::Status Failed(const std::string& verb, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", verb, " ", path));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  INGOT_ASSIGN_OR_RETURN(const Fd file, OpenToRead(path));
  return ReadOpenFile(file, path, max_bytes);
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failed("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteFileDurably(const std::string& path, std::string_view contents) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.valid()) return Failed("create", path);
  INGOT_RETURN_IF_ERROR(WriteAll(file.get(), contents, path));
  return ::fsync(file.get()) == 0 ? absl::OkStatus() : Failed("fsync", path);
}

absl::Status ReplaceFileBy(const std::string& path, const WriteDraft& write, const Replacement& how) {
  const std::string draft = absl::StrCat(path, ".", RandomHex(8), ".new");
  const Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, how.mode));
  if (!file.valid()) return Failed("create", draft);
  absl::Status status = write(file.get(), draft);
  if (status.ok() && how.durable && ::fsync(file.get()) != 0) status = Failed("fsync", draft);
  if (status.ok() && std::rename(draft.c_str(), path.c_str()) != 0) status = Failed("replace", path);
  if (!status.ok()) ::unlink(draft.c_str());
  if (!status.ok() || !how.durable) return status;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return SyncDir(folder.empty() ? "." : folder);
}

absl::Status ReplaceFile(const std::string& path, std::string_view contents, const Replacement& how) {
  return ReplaceFileBy(
      path, [contents](int fd, const std::string& draft) { return WriteAll(fd, contents, draft); }, how);
}

absl::Status SyncDir(const std::string& dir) {
  const Fd file(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.valid()) return Failed("open", dir);
  if (::fsync(file.get()) != 0) return Failed("fsync", dir);
  return absl::OkStatus();
}

// A plain rename cannot replace a nonempty folder.
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
