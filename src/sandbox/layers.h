// Layers of overlayfs: the folders that snapshots of a room consist of (local_room.h). A layer has work/, home/ and, of an
// image, root/. It is frozen: nobody changes it.
//
// Merged, a chain of them does not grow without bound:
//
//   layers, bottom first    a b d/x     merged     a'      A later layer's file replaces an earlier one. A whiteout, by which
//                           a' -b                  c       an overlay marks an entry as deleted (-b), and an opaque folder,
//                           c  =d(y)               d/y     which hides those below it (=d), act and stay: the layers may lie
//                                                  -b      over an image.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/workdir.h"

namespace ingot::sandbox {

// The frozen files between two snapshots, or all files of a copy.
using Layer = WorkDir;

// The attribute that marks an opaque folder, of an overlay that root mounted and of one in a user namespace.
inline constexpr char kOpaqueOfRoot[] = "trusted.overlay.opaque";
inline constexpr char kOpaqueOfUsers[] = "user.overlay.opaque";

// True: the folder of a layer hides that of lower layers.
bool IsOpaque(const std::string& folder);

// Copies the entries of a folder with owners, modes and times into another one, as clones where the file system has them.
absl::Status CopyFiles(const std::string& from, const std::string& to);

// `layers`: folders, bottom first. `to`: an empty folder; it gets owners, modes and times with the files. RESOURCE_EXHAUSTED
// or the error of the file system: `to` is then in no defined state.
absl::Status MergeLayers(const std::vector<std::string>& layers, const std::string& to);

// A layer with the same work/ and home/, whose root/ has the entries of `layer` in `folder` alone. The folder hides what lower
// layers have in it where that of `layer` did, or where `layer` has something else in its place or above it. Files are linked, not
// copied. `folder`: absolute, in the image; empty = root/ is empty. `mark`: kOpaqueOfRoot or kOpaqueOfUsers. DATA_LOSS: as of LinkTree.
absl::StatusOr<std::shared_ptr<const Layer>> OneFolderOf(const std::shared_ptr<const Layer>& layer,
                                                         const std::string& folder, const std::string& work_root,
                                                         const char* mark);

}  // namespace ingot::sandbox
