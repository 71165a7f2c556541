// Layers of overlayfs: the folders that snapshots of a sandbox consist of (local_sandbox.h). A layer has work/, home/
// and, for an image, root/. It never changes.
//
// Merged, a chain of them does not grow without bound:
//
//   layers, bottom first    a b d/x    merged    a'     A later layer's file replaces an earlier one. A whiteout marks
//                           a' -b                c      an entry as deleted (-b), and an opaque folder hides the ones
//                           c  =d(y)             d/y    below it (=d). Both stay: the layers may lie over an image.
//                                                -b
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/trees/workdir.h"

namespace ingot::sandbox {

// The frozen files between two snapshots, or all files of a copy.
using Layer = WorkDir;

// The attribute that marks an opaque folder, of an overlay that root mounted and of one in a user namespace.
inline constexpr char kOpaqueOfRoot[] = "trusted.overlay.opaque";
inline constexpr char kOpaqueOfUsers[] = "user.overlay.opaque";

// True: a layer's folder hides the same folder in lower layers. `folder`: a descriptor, may be O_PATH.
bool IsOpaque(int folder);

// `layers`: bottom first; `part`: a folder of each. `to`: an empty folder that no agent can enter; it gets owners,
// modes and times with the files, which are linked, not copied. Errors as for CopyTree; after one, `to` is in an
// undefined state.
absl::Status MergeLayers(const std::vector<std::shared_ptr<const Layer>>& layers, const std::string& part, int to);

// A layer with the same work/ and home/, whose root/ has only the entries of `layer` in `folder`. The folder hides what
// lower layers have in it if `layer`'s folder did, or if `layer` has something else in its place or above it. Files are
// linked, not copied. `folder`: absolute, in the image; empty = root/ is empty. `mark`: kOpaqueOfRoot or
// kOpaqueOfUsers. DATA_LOSS: as for CopyTree.
absl::StatusOr<std::shared_ptr<const Layer>> OneFolderOf(const std::shared_ptr<const Layer>& layer,
                                                         const std::string& folder, const std::string& work_root,
                                                         const char* mark);

}  // namespace ingot::sandbox
