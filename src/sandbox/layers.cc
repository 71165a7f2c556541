#include "sandbox/layers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "sandbox/link_tree.h"
#include "sandbox/remove_tree.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kCopyPatience{30};

absl::Status RunCopier(const std::vector<std::string>& argv) {
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const Command command{.argv = argv, .env = {{"PATH", "/usr/bin:/bin"}}, .working_dir = "/", .stdin_text = ""};
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, {null.get(), null.get(), null.get()}, {}));
  INGOT_ASSIGN_OR_RETURN(const int status, AwaitChild(pid, argv.front(), kCopyPatience));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("cannot copy all of ", argv[argv.size() - 2], " to ", argv.back()));
}

// The folder `to` gets the owner and mode of `from`, which is another layer's; nothing of it can be read by links. An agent that
// closed `from` does not close the way through `to`.
absl::Status MakeLike(const fs::path& from, const fs::path& to) {
  struct stat info;
  if (lstat(from.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("cannot look at ", from.string()));
  if (mkdir(to.c_str(), 0700) != 0 || lchown(to.c_str(), info.st_uid, info.st_gid) != 0 ||
      chmod(to.c_str(), (info.st_mode & 0777) | 0555) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot make ", to.string()));
  }
  return absl::OkStatus();
}

// Removes from `to` what the entries of `layer` hide without replacing it: a copy merges folders and replaces files.
absl::Status RemoveHidden(const fs::path& layer, const fs::path& to) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(layer, error), end; !error && it != end; it.increment(error)) {
    const fs::path below = to / fs::relative(it->path(), layer);
    const bool is_folder = it->is_directory() && !it->is_symlink();
    const fs::file_status there = fs::symlink_status(below, error);
    error.clear();  // nothing is there
    if (!fs::exists(there)) continue;
    const bool merges = is_folder && there.type() == fs::file_type::directory && !IsOpaque(it->path().string());
    if (!merges && (is_folder || there.type() == fs::file_type::directory))
      INGOT_RETURN_IF_ERROR(RemoveTree(below.string()));
  }
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot merge the layer ", layer.string(), ": ", error.message()));
}

}  // namespace

bool IsOpaque(const std::string& folder) {
  for (const char* const name : {kOpaqueOfRoot, kOpaqueOfUsers}) {
    char mark = 0;
    if (lgetxattr(folder.c_str(), name, &mark, 1) == 1 && mark == 'y') return true;
  }
  return false;
}

absl::Status CopyFiles(const std::string& from, const std::string& to) {
  return RunCopier({"cp", "-a", "--reflink=auto", "--remove-destination", from + "/.", to});
}

absl::Status MergeLayers(const std::vector<std::string>& layers, const std::string& to) {
  for (const std::string& layer : layers) {
    INGOT_RETURN_IF_ERROR(RemoveHidden(layer, to));
    INGOT_RETURN_IF_ERROR(CopyFiles(layer, to));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Layer>> OneFolderOf(const std::shared_ptr<const Layer>& layer,
                                                         const std::string& folder, const std::string& work_root,
                                                         const char* mark) {
  INGOT_ASSIGN_OR_RETURN(Layer made, Layer::Create(work_root, std::nullopt));
  // It goes before the layer that it leads to.
  const std::shared_ptr<const Layer> one(new Layer(std::move(made)), [layer](const Layer* each) { delete each; });
  for (const char* const part : {"/work", "/home"}) {
    rmdir((one->path() + part).c_str());
    if (symlink((layer->path() + part).c_str(), (one->path() + part).c_str()) != 0)
      return ErrnoStatus(errno, absl::StrCat("cannot make ", one->path(), part));
  }
  fs::path from = layer->path() + "/root", to = one->path() + "/root";
  INGOT_RETURN_IF_ERROR(MakeLike(from, to));
  if (folder.empty()) return one;
  bool hides = false, is_there = true;
  for (const fs::path& name : fs::path(folder).lexically_normal().relative_path()) {
    if (name.empty()) continue;  // behind a last slash
    from /= name;
    to /= name;
    std::error_code error;
    const fs::file_type type = is_there ? fs::symlink_status(from, error).type() : fs::file_type::not_found;
    if (type == fs::file_type::not_found && !hides) return one;  // `layer` changed nothing there
    is_there = type == fs::file_type::directory;
    hides = hides || !is_there || IsOpaque(from.string());
    INGOT_RETURN_IF_ERROR(MakeLike(is_there ? from : fs::path(layer->path() + "/root"), to));
  }
  if (is_there) INGOT_RETURN_IF_ERROR(LinkTree(from.string(), to.string()));
  if (hides && setxattr(to.c_str(), mark, "y", 1, 0) != 0)
    return ErrnoStatus(errno, absl::StrCat("cannot hide what lies below ", to.string()));
  return one;
}

}  // namespace ingot::sandbox
