#include "sandbox/merge_layers.h"

#include <sys/xattr.h>

#include <filesystem>
#include <system_error>

#include "sandbox/local_room.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;

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
    if (!merges && (is_folder || there.type() == fs::file_type::directory)) fs::remove_all(below, error);
  }
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot merge the layer ", layer.string(), ": ", error.message()));
}

}  // namespace

// Overlays of root mark an opaque folder in trusted.*, those of user namespaces in user.*.
bool IsOpaque(const std::string& folder) {
  for (const char* const name : {"trusted.overlay.opaque", "user.overlay.opaque"}) {
    char mark = 0;
    if (lgetxattr(folder.c_str(), name, &mark, 1) == 1 && mark == 'y') return true;
  }
  return false;
}

absl::Status MergeLayers(const std::vector<std::string>& layers, const std::string& to) {
  for (const std::string& layer : layers) {
    INGOT_RETURN_IF_ERROR(RemoveHidden(layer, to));
    INGOT_RETURN_IF_ERROR(CopyFiles(layer, to));
  }
  return absl::OkStatus();
}

}  // namespace ingot::sandbox
