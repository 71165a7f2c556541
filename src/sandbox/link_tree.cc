#include "sandbox/link_tree.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "sandbox/spawn.h"
#include "sandbox/tree_walk.h"

namespace ingot::sandbox {
namespace {

constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Of `errno`.
absl::Status Failure(const std::string& name) {
  const int error = errno;
  const std::string what = absl::StrCat("cannot take over '", name, "'");
  for (const int machine : {ENOSPC, EDQUOT, ENOMEM, EMFILE, ENFILE, EIO, EROFS}) {
    if (error == machine) return ErrnoStatus(error, what);
  }
  return absl::DataLossError(absl::StrCat(what, ": ", std::strerror(error)));
}

bool CopyAttributes(int from, int to) {
  std::vector<char> names(65536), text(65536);
  const ssize_t size = flistxattr(from, names.data(), names.size());
  if (size < 0) return errno == ENOTSUP;
  for (const char* name = names.data(); name < names.data() + size; name += strlen(name) + 1) {
    const ssize_t length = fgetxattr(from, name, text.data(), text.size());
    if (length < 0 || fsetxattr(to, name, text.data(), static_cast<size_t>(length), 0) != 0) return false;
  }
  return true;
}

// Owner, mode, times and attributes.
bool MakeLike(int from, const struct stat& info, int to) {
  const timespec times[2] = {info.st_atim, info.st_mtim};
  return CopyAttributes(from, to) && fchown(to, info.st_uid, info.st_gid) == 0 &&
         fchmod(to, info.st_mode & 07777) == 0 && futimens(to, times) == 0;
}

// Without the holes.
bool CopyBytes(int from, off_t size, int to) {
  if (ioctl(to, FICLONE, from) == 0) return true;
  if (ftruncate(to, size) != 0) return false;
  for (off_t at = 0; (at = lseek(from, at, SEEK_DATA)) >= 0;) {
    const off_t hole = lseek(from, at, SEEK_HOLE);
    if (hole < 0 || lseek(to, at, SEEK_SET) < 0) return false;
    while (at < hole) {
      const ssize_t copied = sendfile(to, from, &at, static_cast<size_t>(hole - at));
      if (copied < 0) return false;
      if (copied == 0) return true;
    }
  }
  return errno == ENXIO;  // no data after the last hole
}

bool CopyFile(int from, const char* name, const struct stat& info, int to) {
  if (S_ISREG(info.st_mode)) {
    const Fd source(openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    const Fd copy(openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    return source.valid() && copy.valid() && CopyBytes(source.get(), info.st_size, copy.get()) &&
           MakeLike(source.get(), info, copy.get());
  }
  if (S_ISLNK(info.st_mode)) {
    std::string target(static_cast<size_t>(info.st_size) + 1, '\0');
    const ssize_t size = readlinkat(from, name, target.data(), target.size());
    if (size < 0) return false;
    target.resize(static_cast<size_t>(size));
    return symlinkat(target.c_str(), to, name) == 0 &&
           fchownat(to, name, info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) == 0;
  }
  return mknodat(to, name, info.st_mode, info.st_rdev) == 0 &&
         fchownat(to, name, info.st_uid, info.st_gid, AT_SYMLINK_NOFOLLOW) == 0 &&
         fchmodat(to, name, info.st_mode & 07777, 0) == 0;
}

class TreeLinker : public TreeVisitor {
 public:
  explicit TreeLinker(const std::string& to) : top_(to) {}

  absl::Status Enter(int parent, const std::string& name, const struct stat& info) override {
    const bool is_top = parent == AT_FDCWD;
    if ((is_top ? chmod(top_.c_str(), 0700) : mkdirat(to_.get(), name.c_str(), 0700)) != 0) return Failure(name);
    to_ = Fd(openat(to_.get(), (is_top ? top_ : name).c_str(), kOpenFolder));
    if (!to_.valid()) return Failure(name);
    // Leave takes the permission back.
    if (IsClosed(info) && fchmodat(parent, name.c_str(), info.st_mode | 0500, AT_SYMLINK_NOFOLLOW) != 0) {
      return Failure(name);
    }
    ++depth_;
    return absl::OkStatus();
  }

  absl::Status File(int folder, const std::string& name, const struct stat& info) override {
    if (linkat(folder, name.c_str(), to_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
    if (errno != EMLINK && errno != EXDEV) return Failure(name);
    // One copy serves all names of the file, as long as it can have more links.
    Copy& copy = copies_[info.st_ino];
    if (copy.folder.valid()) {
      if (linkat(copy.folder.get(), copy.name.c_str(), to_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
      if (errno != EMLINK) return Failure(name);
    }
    if (!CopyFile(folder, name.c_str(), info, to_.get())) return Failure(name);
    copy = {.folder = Fd(openat(to_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC)), .name = name};
    return copy.folder.valid() ? absl::OkStatus() : Failure(name);
  }

  // The parent is opened before modes close the way to it.
  absl::Status Leave(int folder, const struct stat& info) override {
    const bool is_top = --depth_ == 0;
    Fd parent(is_top ? -1 : openat(to_.get(), "..", kOpenFolder));
    if (!is_top && !parent.valid()) return Failure("..");
    if (!MakeLike(folder, info, to_.get())) return Failure(".");
    if (IsClosed(info) && fchmod(folder, info.st_mode & 07777) != 0) return Failure(".");
    to_ = std::move(parent);
    return absl::OkStatus();
  }

  absl::Status Failed(const std::string& name) override { return Failure(name); }

 private:
  struct Copy {
    Fd folder;
    std::string name;
  };

  const std::string top_;
  Fd to_{AT_FDCWD};  // what becomes the current folder
  int64_t depth_ = 0;
  std::map<ino_t, Copy> copies_;
};

}  // namespace

absl::Status LinkTree(const std::string& from, const std::string& to) {
  TreeLinker linker(to);
  return WalkTree(from, linker);
}

}  // namespace ingot::sandbox
