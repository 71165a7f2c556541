#include "sandbox/trees/layers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/open_file.h"
#include "sandbox/trees/copy_tree.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

// Creates the folder `name` with the owner and mode of `from`, which belongs to another layer. Links cannot be used to
// read it. The copy's owner can access it even if an agent made `from` inaccessible.
absl::StatusOr<Fd> MakeLike(const Fd& from, int parent, const std::string& name) {
  struct stat info;
  if (fstat(from.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot read '", name, "' in a layer"));
  Fd made;
  if (mkdirat(parent, name.c_str(), 0700) == 0)
    made = base::OpenBeneath(parent, name, base::kOpenFolder, base::PathLinks::kNone);
  if (made.valid() && fchown(made.get(), info.st_uid, info.st_gid) == 0 &&
      fchmod(made.get(), (info.st_mode & 0777) | 0755) == 0) {
    return made;
  }
  return ErrnoStatus(errno, absl::StrCat("cannot create '", name, "' in a layer"));
}

// Descends through a layer to one of its folders. Parts of the path may not exist.
class Descent {
 public:
  explicit Descent(Fd top) : top_(std::move(top)), at_(fcntl(top_.get(), F_DUPFD_CLOEXEC, 3)) {}

  // Returns false if the layer has nothing there and hides nothing in lower layers.
  bool GoDown(const std::string& name) {
    const bool was_there = is_there_;
    Fd next =
        was_there ? base::OpenBeneath(at_.get(), name, O_PATH | O_DIRECTORY | O_CLOEXEC, base::PathLinks::kNone) : Fd();
    const bool is_missing = !was_there || (!next.valid() && errno == ENOENT);
    if (is_missing && !hides_) return false;
    is_there_ = next.valid();
    hides_ = hides_ || !is_there_ || IsOpaque(next.get());
    if (is_there_) parent_ = std::exchange(at_, std::move(next));
    name_ = name;
    return true;
  }
  const Fd& like() const { return is_there_ ? at_ : top_; }  // provides the owner and mode for a copy of this folder
  bool is_there() const { return is_there_; }
  bool hides() const { return hides_; }  // hides what lower layers have there
  int parent() const { return parent_.get(); }
  const std::string& name() const { return name_; }

 private:
  const Fd top_;
  Fd parent_, at_;
  std::string name_;
  bool is_there_ = true, hides_ = false;
};

}  // namespace

bool IsOpaque(int folder) {
  const std::string path = absl::StrCat("/proc/self/fd/", folder);
  for (const char* const name : {kOpaqueOfRoot, kOpaqueOfUsers}) {
    char mark = 0;
    if (getxattr(path.c_str(), name, &mark, 1) == 1 && mark == 'y') return true;
  }
  return false;
}

absl::Status MergeLayers(const std::vector<std::shared_ptr<const Layer>>& layers, const std::string& part, int to) {
  for (const auto& layer : layers) {
    INGOT_ASSIGN_OR_RETURN(const Fd folder, layer->Open());
    struct stat info;
    if (fstatat(folder.get(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) continue;
    INGOT_RETURN_IF_ERROR(CopyTree(folder.get(), part, to, {.links = true, .merges = true}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Layer>> OneFolderOf(const std::shared_ptr<const Layer>& layer,
                                                         const std::string& folder, const std::string& work_root,
                                                         const char* mark) {
  INGOT_ASSIGN_OR_RETURN(Layer made, Layer::Create(work_root, std::nullopt));
  // Destroyed before the layer that it links to.
  const std::shared_ptr<const Layer> one(new Layer(std::move(made)), [layer](const Layer* each) { delete each; });
  for (const char* const part : {"/work", "/home"}) {
    rmdir((one->path() + part).c_str());
    if (symlink((layer->path() + part).c_str(), (one->path() + part).c_str()) != 0)
      return ErrnoStatus(errno, absl::StrCat("cannot make ", one->path(), part));
  }
  INGOT_ASSIGN_OR_RETURN(const Fd source, layer->Open());
  INGOT_ASSIGN_OR_RETURN(Fd to, one->Open());
  Fd root = base::OpenBeneath(source.get(), "root", O_PATH | O_DIRECTORY | O_CLOEXEC, base::PathLinks::kNone);
  if (!root.valid()) return ErrnoStatus(errno, absl::StrCat("cannot open ", layer->path(), "/root"));
  INGOT_ASSIGN_OR_RETURN(to, MakeLike(root, to.get(), "root"));
  if (folder.empty()) return one;
  Descent from(std::move(root));
  for (const fs::path& name : fs::path(folder).lexically_normal().relative_path()) {
    if (name.empty()) continue;  // after a trailing slash
    if (!from.GoDown(name.string())) return one;
    INGOT_ASSIGN_OR_RETURN(to, MakeLike(from.like(), to.get(), name.string()));
  }
  if (from.is_there()) INGOT_RETURN_IF_ERROR(CopyTree(from.parent(), from.name(), to.get(), {.links = true}));
  if (from.hides() && fsetxattr(to.get(), mark, "y", 1, 0) != 0)
    return ErrnoStatus(errno, absl::StrCat("cannot hide the layers below ", folder));
  return one;
}

}  // namespace ingot::sandbox
