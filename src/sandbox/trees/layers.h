// Manages the overlayfs layers that make up sandbox snapshots (local_sandbox.h). A layer contains work/, home/, and,
// for an image, root/. Layers are immutable.
//
// Merging layers keeps a chain of them from growing without bound:
//
//   layers, bottom first    a b d/x    merged    a'     A file in a later layer replaces an earlier one. A whiteout
//                           a' -b                c      marks an entry as deleted (-b), and an opaque folder hides
//                           c  =d(y)             d/y    the same folder below it (=d). Both marks are kept because
//                                                -b     the layers may be on top of an image.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/trees/workdir.h"

namespace ingot::sandbox {

// The files that changed between two snapshots, or all files of a copy.
using Layer = WorkDir;

// The attribute that marks an opaque folder, for overlays mounted by root and by users in a user namespace.
inline constexpr char kOpaqueOfRoot[] = "trusted.overlay.opaque";
inline constexpr char kOpaqueOfUsers[] = "user.overlay.opaque";

// Returns whether a layer's folder hides the same folder in lower layers. `folder` is a descriptor and may be O_PATH.
bool IsOpaque(int folder);

// Merges the folder `part` of all `layers`, which are ordered bottom first, into `to`. Files are linked instead of
// copied, and `to` gets owners, modes, and times. Returns the same errors as CopyTree. After an error, the state of
// `to` is undefined. REQUIRES: `to` is empty and no agent can enter it.
absl::Status MergeLayers(const std::vector<std::shared_ptr<const Layer>>& layers, const std::string& part, int to);

// Returns a layer with the same work/ and home/ whose root/ contains only what `layer` has in `folder`. The new folder
// is opaque if it was opaque in `layer`, or if `layer` has something other than a folder at or above its path. Files
// are linked instead of copied. `folder` is an absolute path in the image; empty = root/ is empty. `mark` is
// kOpaqueOfRoot or kOpaqueOfUsers. Returns the same DATA_LOSS errors as CopyTree.
absl::StatusOr<std::shared_ptr<const Layer>> OneFolderOf(const std::shared_ptr<const Layer>& layer,
                                                         const std::string& folder, const std::string& work_root,
                                                         const char* mark);

}  // namespace ingot::sandbox
