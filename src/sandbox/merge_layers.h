// Merges frozen layers of overlayfs (local_room.h) into one folder, so that a chain of snapshots does not grow without bound.
//
//   layers, bottom first    a b d/x     merged     a'      A later layer's file replaces an earlier one. A whiteout, by which
//                           a' -b                  c       an overlay marks an entry as deleted (-b), and an opaque folder,
//                           c  =d(y)               d/y     which hides those below it (=d), act and stay: the layers may lie
//                                                  -b      over an image.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

// True: the folder of a layer hides that of lower layers.
bool IsOpaque(const std::string& folder);

// `layers`: folders, bottom first. `to`: an empty folder; it gets owners, modes and times with the files. RESOURCE_EXHAUSTED
// or the error of the file system: `to` is then in no defined state.
absl::Status MergeLayers(const std::vector<std::string>& layers, const std::string& to);

}  // namespace ingot::sandbox
