#include "sandbox/link_tree.h"

#include <dirent.h>
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
#include <memory>
#include <utility>
#include <vector>

#include "sandbox/spawn.h"

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

// Goes down by names and up by "..", so that neither the length of a path nor the number of descriptors bounds the depth.
class TreeLinker {
 public:
  absl::Status Link(const std::string& from, const std::string& to) {
    if (chmod(to.c_str(), 0700) != 0) return Failure(to);
    INGOT_RETURN_IF_ERROR(Enter(from, to));
    while (true) {
      std::vector<std::string>& left = levels_.back().folders;
      if (!left.empty()) {
        const std::string name = std::move(left.back());
        left.pop_back();
        if (mkdirat(to_.get(), name.c_str(), 0700) != 0) return Failure(name);
        INGOT_RETURN_IF_ERROR(Enter(name, name));
        continue;
      }
      const bool is_top = levels_.size() == 1;
      INGOT_RETURN_IF_ERROR(Leave(is_top));
      if (is_top) return absl::OkStatus();
    }
  }

 private:
  struct Level {
    struct stat info;                  // of the folder that is taken over
    std::vector<std::string> folders;  // in it, to enter yet
  };

  struct Copy {
    Fd folder;
    std::string name;
  };

  absl::Status Enter(const std::string& name, const std::string& name_there) {
    Level level;
    if (fstatat(from_.get(), name.c_str(), &level.info, AT_SYMLINK_NOFOLLOW) != 0) return Failure(name);
    Fd from(openat(from_.get(), name.c_str(), kOpenFolder));
    // Only a user who is not root needs the permission. Leave takes it back.
    if ((level.info.st_mode & 0500) != 0500 && geteuid() != 0) {
      if (fchmodat(from_.get(), name.c_str(), level.info.st_mode | 0500, 0) != 0) return Failure(name);
      from = Fd(openat(from_.get(), name.c_str(), kOpenFolder));
    }
    if (!from.valid()) return Failure(name);
    Fd to(openat(to_.get(), name_there.c_str(), kOpenFolder));
    if (!to.valid()) return Failure(name);
    from_ = std::move(from);
    to_ = std::move(to);
    levels_.push_back(std::move(level));
    return LinkFiles();
  }

  // Links what the current folder has but for folders.
  absl::Status LinkFiles() {
    const int again = openat(from_.get(), ".", kOpenFolder);
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(again < 0 ? nullptr : fdopendir(again), closedir);
    if (entries == nullptr) return Failure(".");
    errno = 0;
    while (const dirent* const entry = readdir(entries.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info;
      if (fstatat(from_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return Failure(name);
      if (S_ISDIR(info.st_mode)) {
        levels_.back().folders.push_back(name);
      } else {
        INGOT_RETURN_IF_ERROR(LinkFile(name, info));
      }
      errno = 0;
    }
    return errno == 0 ? absl::OkStatus() : Failure(".");
  }

  absl::Status LinkFile(const std::string& name, const struct stat& info) {
    if (linkat(from_.get(), name.c_str(), to_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
    if (errno != EMLINK && errno != EXDEV) return Failure(name);
    // One copy serves all names of the file, as long as it can have more links.
    Copy& copy = copies_[info.st_ino];
    if (copy.folder.valid()) {
      if (linkat(copy.folder.get(), copy.name.c_str(), to_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
      if (errno != EMLINK) return Failure(name);
    }
    if (!CopyFile(from_.get(), name.c_str(), info, to_.get())) return Failure(name);
    copy = {.folder = Fd(openat(to_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC)), .name = name};
    return copy.folder.valid() ? absl::OkStatus() : Failure(name);
  }

  // The parent is opened before modes close the way to it.
  absl::Status Leave(bool is_top) {
    Fd from(is_top ? -1 : openat(from_.get(), "..", kOpenFolder)),
        to(is_top ? -1 : openat(to_.get(), "..", kOpenFolder));
    if (!is_top && (!from.valid() || !to.valid())) return Failure("..");
    const struct stat& info = levels_.back().info;
    if (!MakeLike(from_.get(), info, to_.get())) return Failure(".");
    if ((info.st_mode & 0500) != 0500 && geteuid() != 0 && fchmod(from_.get(), info.st_mode & 07777) != 0)
      return Failure(".");
    from_ = std::move(from);
    to_ = std::move(to);
    levels_.pop_back();
    return absl::OkStatus();
  }

  Fd from_{AT_FDCWD}, to_{AT_FDCWD};  // the current folder
  std::vector<Level> levels_;
  std::map<ino_t, Copy> copies_;
};

}  // namespace

absl::Status LinkTree(const std::string& from, const std::string& to) { return TreeLinker().Link(from, to); }

}  // namespace ingot::sandbox
