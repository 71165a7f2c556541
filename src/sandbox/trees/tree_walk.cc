#include "sandbox/trees/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "base/open_file.h"

namespace ingot::sandbox {
namespace {

using base::Fd;

constexpr int64_t kMaxReopened = 1'000'000;  // folders opened to find the way back

class TreeWalk {
 public:
  TreeWalk(int parent, TreeVisitor& visitor) : parent_(parent), visitor_(visitor), at_(Parent()) {}

  absl::Status Walk(const std::string& top) {
    INGOT_RETURN_IF_ERROR(Enter(top));
    while (!levels_.empty()) {
      std::vector<std::string>& left = levels_.back().folders;
      if (left.empty()) {
        INGOT_RETURN_IF_ERROR(Leave());
      } else {
        const std::string name = std::move(left.back());
        left.pop_back();
        INGOT_RETURN_IF_ERROR(Enter(name));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Level {
    std::string name;
    struct stat info;
    std::vector<std::string> folders;  // subfolders still to enter
  };

  static bool IsSame(int folder, const struct stat& info) {
    struct stat now;
    return fstat(folder, &now) == 0 && now.st_ino == info.st_ino && now.st_dev == info.st_dev;
  }

  Fd Parent() const { return Fd(parent_ == AT_FDCWD ? AT_FDCWD : fcntl(parent_, F_DUPFD_CLOEXEC, 3)); }

  static Fd OpenIn(const Fd& folder, const std::string& name) {
    if (folder.get() == AT_FDCWD) return Fd(open(name.c_str(), base::kOpenFolder));
    return base::OpenBeneath(folder.get(), name, base::kOpenFolder, base::PathLinks::kNone);
  }

  absl::Status Enter(const std::string& name) {
    Level level{.name = name, .info = {}, .folders = {}};
    if (fstatat(at_.get(), name.c_str(), &level.info, AT_SYMLINK_NOFOLLOW) != 0) return visitor_.Failed(name);
    INGOT_RETURN_IF_ERROR(visitor_.Enter(at_.get(), name, level.info));
    Fd folder = OpenIn(at_, name);
    if (!folder.valid()) return visitor_.Failed(name);
    if (!IsSame(folder.get(), level.info)) {
      errno = ESTALE;
      return visitor_.Failed(name);
    }
    // From a folder that can be listed but not traversed, the parent cannot be opened.
    Fd entries(openat(folder.get(), ".", base::kOpenFolder));
    if (!entries.valid()) return visitor_.Failed(name);
    at_ = std::move(folder);
    levels_.push_back(std::move(level));
    return Read(std::move(entries));
  }

  // Visits the files of the current folder and finds its subfolders.
  absl::Status Read(Fd folder) {
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(folder.get()), closedir);
    if (entries == nullptr) return visitor_.Failed(levels_.back().name);
    folder.Release();
    errno = 0;
    while (const dirent* const entry = readdir(entries.get())) {
      const std::string name = entry->d_name;
      struct stat info;
      if (name == "." || name == "..") {
        // The folder itself.
      } else if (fstatat(at_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        INGOT_RETURN_IF_ERROR(visitor_.Failed(name));
      } else if (S_ISDIR(info.st_mode)) {
        INGOT_RETURN_IF_ERROR(visitor_.Found(info));
        levels_.back().folders.push_back(name);
      } else {
        INGOT_RETURN_IF_ERROR(visitor_.File(at_.get(), name, info));
      }
      errno = 0;
    }
    return errno == 0 ? absl::OkStatus() : visitor_.Failed(levels_.back().name);
  }

  // Opens the parent before a visitor may block access to it.
  absl::Status Leave() {
    const bool is_top = levels_.size() == 1;
    Fd parent = is_top ? Parent() : Fd(openat(at_.get(), "..", base::kOpenFolder));
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    const bool moved = !is_top && (!parent.valid() || !IsSame(parent.get(), levels_.back().info));
    if (moved) {
      errno = ESTALE;
      INGOT_RETURN_IF_ERROR(visitor_.Failed(level.name));
      return FindCurrent();
    }
    INGOT_RETURN_IF_ERROR(visitor_.Leave(at_.get(), level.info));
    at_ = std::move(parent);
    return visitor_.Left(at_.get(), level.name);
  }

  // Returns from the top to the last level, or to the last level that has not moved.
  absl::Status FindCurrent() {
    reopened_ += static_cast<int64_t>(levels_.size());
    if (reopened_ > kMaxReopened) return absl::ResourceExhaustedError("folders are moved too often to traverse them");
    Fd at = Parent();
    for (size_t i = 0; i < levels_.size(); ++i) {
      Fd next = OpenIn(at, levels_[i].name);
      if (next.valid() && IsSame(next.get(), levels_[i].info)) {
        at = std::move(next);
        continue;
      }
      const std::string name = levels_[i].name;
      levels_.resize(i);
      at_ = std::move(at);
      errno = ESTALE;
      return visitor_.Failed(name);
    }
    at_ = std::move(at);
    return absl::OkStatus();
  }

  const int parent_;
  TreeVisitor& visitor_;
  Fd at_;  // current folder
  std::vector<Level> levels_;
  int64_t reopened_ = 0;
};

}  // namespace

bool IsClosed(const struct stat& info) { return (info.st_mode & 0500) != 0500 && geteuid() != 0; }

absl::Status WalkTree(int parent, const std::string& name, TreeVisitor& visitor) {
  return TreeWalk(parent, visitor).Walk(name);
}

absl::Status WalkTree(const std::string& top, TreeVisitor& visitor) { return WalkTree(AT_FDCWD, top, visitor); }

}  // namespace ingot::sandbox
