#include "sandbox/trees/copy_tree.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/open_file.h"
#include "sandbox/trees/layers.h"
#include "sandbox/trees/remove_tree.h"
#include "sandbox/trees/tree_walk.h"

namespace ingot::sandbox {
namespace {

// Converts errno to a status.
absl::Status Failure(const std::string& name) {
  const int error = errno;
  const std::string what = absl::StrCat("cannot take ownership of '", name, "'");
  // EBADF: no descriptor was left for a folder in the path.
  for (const int machine :
       {ENOSPC, EDQUOT, ENOMEM, EMFILE, ENFILE, EBADF, EIO, EROFS, EUCLEAN, ETIMEDOUT, EAGAIN, EINTR}) {
    if (error == machine) return ErrnoStatus(error, what);
  }
  return absl::DataLossError(absl::StrCat(what, ": ", std::strerror(error)));
}

// A copy without a security module's labels is complete, because its policy may deny the copying process a label
// (EACCES). A copy without an overlay's marks is incomplete.
bool MayLack(std::string_view attribute, int error) {
  if (error == EACCES) return attribute.starts_with("security.");
  return (error == EPERM || error == ENOTSUP) && attribute.find(".overlay.") == std::string_view::npos;
}

bool CopyAttributes(int from, int to) {
  if (flistxattr(from, nullptr, 0) == 0) return true;
  std::vector<char> names(65536), text(65536);
  const ssize_t size = flistxattr(from, names.data(), names.size());
  if (size < 0) return errno == ENOTSUP;
  for (const char* name = names.data(); name < names.data() + size; name += strlen(name) + 1) {
    const ssize_t length = fgetxattr(from, name, text.data(), text.size());
    if (length >= 0 && fsetxattr(to, name, text.data(), static_cast<size_t>(length), 0) == 0) continue;
    if (!MayLack(name, errno)) return false;
  }
  return true;
}

// Copies the data but not the holes.
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

// A file may be inaccessible to its own user, who is not root.
Fd OpenToRead(int folder, const std::string& name, const struct stat& info) {
  constexpr int kRead = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  Fd file = base::OpenBeneath(folder, name, kRead, base::PathLinks::kNone);
  if (file.valid() || errno != EACCES || geteuid() == 0) return file;
  if (fchmodat(folder, name.c_str(), (info.st_mode & 07777) | 0400, AT_SYMLINK_NOFOLLOW) != 0) return Fd();
  file = base::OpenBeneath(folder, name, kRead, base::PathLinks::kNone);
  fchmodat(folder, name.c_str(), info.st_mode & 07777, AT_SYMLINK_NOFOLLOW);
  return file;
}

class TreeCopier : public TreeVisitor {
 public:
  TreeCopier(int to, const TreeCopy& how) : how_(how), top_(to), to_(fcntl(to, F_DUPFD_CLOEXEC, 3)) {}

  // Folders that it creates are inaccessible to others until Leave.
  absl::Status Enter(int parent, const std::string& name, const struct stat& info) override {
    if (depth_ == 0) {
      if (how_.gives_to.has_value() && fchown(top_, geteuid(), getegid()) != 0) return Failure(name);
      if (fchmod(top_, 0700) != 0) return Failure(name);
    } else {
      INGOT_RETURN_IF_ERROR(MakeFolder(parent, name));
      path_.push_back(name);
    }
    // Leave removes the permission.
    if (IsClosed(info) && fchmodat(parent, name.c_str(), info.st_mode | 0500, AT_SYMLINK_NOFOLLOW) != 0) {
      return Failure(name);
    }
    ++depth_;
    return absl::OkStatus();
  }

  absl::Status File(int folder, const std::string& name, const struct stat& info) override {
    if (how_.merges) INGOT_RETURN_IF_ERROR(RemoveTree(to_.get(), name));
    if (how_.links) {
      if (linkat(folder, name.c_str(), to_.get(), name.c_str(), 0) == 0) return absl::OkStatus();
      if (errno != EMLINK && errno != EXDEV) return Failure(name);
    }
    if (info.st_nlink > 1 && LinkToCopy(name, info)) return absl::OkStatus();
    bool is_left_out = false;
    if (!Copy(folder, name, info, is_left_out)) return Failure(name);
    if (info.st_nlink > 1 && !is_left_out) copies_[{info.st_dev, info.st_ino}] = PathOf(name);
    return absl::OkStatus();
  }

  // Opens the parent before modes block access to it.
  absl::Status Leave(int folder, const struct stat& info) override {
    const bool is_top = --depth_ == 0;
    Fd parent(is_top ? -1 : openat(to_.get(), "..", base::kOpenFolder));
    if (!is_top && !parent.valid()) return Failure("..");
    if (!MakeLike(folder, info, to_.get())) return Failure(".");
    if (IsClosed(info) && fchmod(folder, info.st_mode & 07777) != 0) return Failure(".");
    to_ = std::move(parent);
    if (!is_top) path_.pop_back();
    return absl::OkStatus();
  }

  absl::Status Failed(const std::string& name) override { return Failure(name); }

 private:
  // Creates the folder `name`, or finds the folder that it merges with, and enters it.
  absl::Status MakeFolder(int parent, const std::string& name) {
    struct stat there;
    bool is_there = how_.merges && fstatat(to_.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there &&
        (!S_ISDIR(there.st_mode) ||
         IsOpaque(base::OpenBeneath(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC, base::PathLinks::kNone).get()))) {
      INGOT_RETURN_IF_ERROR(RemoveTree(to_.get(), name));
      is_there = false;
    }
    if (is_there) fchmodat(to_.get(), name.c_str(), 0700, AT_SYMLINK_NOFOLLOW);
    if (!is_there && mkdirat(to_.get(), name.c_str(), 0700) != 0) return Failure(name);
    to_ = base::OpenBeneath(to_.get(), name, base::kOpenFolder, base::PathLinks::kNone);
    return to_.valid() ? absl::OkStatus() : Failure(name);
  }

  // Copies owner, mode, times, and attributes.
  bool MakeLike(int from, const struct stat& info, int to) const {
    const timespec times[2] = {info.st_atim, info.st_mtim};
    mode_t mode = info.st_mode & (how_.gives_to.has_value() ? 01777 : 07777);
    if (how_.opens) mode |= S_ISDIR(info.st_mode) || IsScript(from) ? 0700 : 0600;
    return CopyAttributes(from, to) && Gave(fchown(to, OwnerOf(info), GroupOf(info))) && fchmod(to, mode) == 0 &&
           futimens(to, times) == 0;
  }
  static bool IsScript(int file) {
    char mark[2];
    return pread(file, mark, sizeof(mark), 0) == sizeof(mark) && mark[0] == '#' && mark[1] == '!';
  }
  // Users other than root own their copies of other users' files.
  static bool Gave(int result) { return result == 0 || (errno == EPERM && geteuid() != 0); }
  uid_t OwnerOf(const struct stat& info) const { return how_.gives_to.value_or(info.st_uid); }
  gid_t GroupOf(const struct stat& info) const { return how_.gives_to.value_or(info.st_gid); }

  bool Copy(int folder, const std::string& name, const struct stat& info, bool& is_left_out) const {
    if (S_ISREG(info.st_mode)) return CopyFile(folder, name, info, is_left_out);
    if (S_ISLNK(info.st_mode)) return CopyLink(folder, name, info);
    return mknodat(to_.get(), name.c_str(), info.st_mode, info.st_rdev) == 0 &&
           Gave(fchownat(to_.get(), name.c_str(), OwnerOf(info), GroupOf(info), AT_SYMLINK_NOFOLLOW)) &&
           fchmodat(to_.get(), name.c_str(), info.st_mode & 07777, 0) == 0;
  }

  bool CopyFile(int folder, const std::string& name, const struct stat& info, bool& is_left_out) const {
    const Fd source = OpenToRead(folder, name, info);
    struct stat opened;
    if (!source.valid() || fstat(source.get(), &opened) != 0) return false;
    is_left_out = !S_ISREG(opened.st_mode) || (how_.only_of.has_value() && opened.st_uid != *how_.only_of);
    if (is_left_out) return true;
    const Fd copy(openat(to_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    opened.st_mode = info.st_mode;  // the file may be open only temporarily
    return copy.valid() && CopyBytes(source.get(), opened.st_size, copy.get()) &&
           MakeLike(source.get(), opened, copy.get());
  }

  bool CopyLink(int folder, const std::string& name, const struct stat& info) const {
    std::string target(static_cast<size_t>(info.st_size) + 1, '\0');
    const ssize_t size = readlinkat(folder, name.c_str(), target.data(), target.size());
    if (size < 0) return false;
    target.resize(static_cast<size_t>(size));
    const timespec times[2] = {info.st_atim, info.st_mtim};
    return symlinkat(target.c_str(), to_.get(), name.c_str()) == 0 &&
           Gave(fchownat(to_.get(), name.c_str(), OwnerOf(info), GroupOf(info), AT_SYMLINK_NOFOLLOW)) &&
           utimensat(to_.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0;
  }

  // One copy is used for all hard links to a file, as long as it can have more links and a path reaches it. Returns
  // false if another copy is needed.
  bool LinkToCopy(const std::string& name, const struct stat& info) const {
    const auto copy = copies_.find({info.st_dev, info.st_ino});
    if (copy == copies_.end() || copy->second.empty()) return false;
    const size_t slash = copy->second.rfind('/');
    const Fd folder = slash == std::string::npos
                          ? Fd(fcntl(top_, F_DUPFD_CLOEXEC, 3))
                          : base::OpenBeneath(top_, copy->second.substr(0, slash), O_PATH | O_DIRECTORY | O_CLOEXEC,
                                              base::PathLinks::kNone);
    const char* const there = copy->second.c_str() + (slash == std::string::npos ? 0 : slash + 1);
    return folder.valid() && linkat(folder.get(), there, to_.get(), name.c_str(), 0) == 0;
  }

  // Path below the top; empty = longer than PATH_MAX.
  std::string PathOf(const std::string& name) const {
    std::string path;
    for (const std::string& folder : path_) {
      if (path.size() > PATH_MAX) return "";
      path += folder + "/";
    }
    return path + name;
  }

  const TreeCopy how_;
  const int top_;
  Fd to_;  // copy of the current folder
  int64_t depth_ = 0;
  std::vector<std::string> path_;  // path of the current folder
  std::map<std::pair<dev_t, ino_t>, std::string> copies_;
};

}  // namespace

absl::Status CopyTree(int parent, const std::string& from, int to, const TreeCopy& how) {
  TreeCopier copier(to, how);
  return WalkTree(parent, from, copier);
}

}  // namespace ingot::sandbox
