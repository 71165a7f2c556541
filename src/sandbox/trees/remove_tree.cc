#include "sandbox/trees/remove_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sandbox/trees/tree_walk.h"

namespace ingot::sandbox {
namespace {

class TreeRemover : public TreeVisitor {
 public:
  // Restores permissions that an agent may have removed from its own folders.
  absl::Status Enter(int parent, const std::string& name, const struct stat& info) override {
    if ((info.st_mode & 0700) != 0700) fchmodat(parent, name.c_str(), 0700, AT_SYMLINK_NOFOLLOW);
    return absl::OkStatus();
  }
  absl::Status File(int folder, const std::string& name, const struct stat& /*info*/) override {
    return unlinkat(folder, name.c_str(), 0) == 0 ? absl::OkStatus() : Failed(name);
  }
  absl::Status Left(int parent, const std::string& name) override {
    return unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 ? absl::OkStatus() : Failed(name);
  }
  absl::Status Failed(const std::string& name) override {
    if (errno != ENOENT && errno != ENOTDIR && first_.ok()) {
      first_ = absl::UnavailableError(absl::StrCat("cannot remove '", name, "': ", std::strerror(errno)));
    }
    return absl::OkStatus();
  }
  const absl::Status& first() const { return first_; }

 private:
  absl::Status first_;
};

}  // namespace

absl::Status RemoveTree(int parent, const std::string& name) {
  TreeRemover remover;
  struct stat info;
  if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    remover.Failed(name).IgnoreError();
  } else if (S_ISDIR(info.st_mode)) {
    const absl::Status walked = WalkTree(parent, name, remover);
    if (!walked.ok()) return absl::UnavailableError(absl::StrCat("cannot remove '", name, "': ", walked.message()));
  } else {
    remover.File(parent, name, info).IgnoreError();
  }
  return remover.first();
}

absl::Status RemoveTree(const std::string& path) { return RemoveTree(AT_FDCWD, path); }

}  // namespace ingot::sandbox
