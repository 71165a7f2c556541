// Copies or hard-links a folder tree into another folder. An agent may have built the tree to break the copy, with
// nesting deeper than PATH_MAX, files with the maximum number of links, folders without permissions, or links that lead
// outside. CopyTree uses only descriptors (tree_walk.h, base/open_file.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/status.h"

namespace ingot::sandbox {

struct TreeCopy {
  // True = hard-links files. A file that cannot be linked, because it has too many links or is on another file system,
  // is copied once. False = copies all files, as clones if the file system supports it. Either way, hard links to the
  // same file remain hard links to one file.
  bool links = false;
  // True = `to` is not empty. Folders are merged, except where an overlay's mark hides the lower folder (layers.h).
  // Other entries are replaced.
  bool merges = false;
  // Skips files that this user does not own, because an agent may have linked to a file that it cannot read. nullopt =
  // skips nothing.
  std::optional<uid_t> only_of = std::nullopt;
  // The owner of the copies, which lose setuid and setgid. nullopt = the original's owner, or this process's user if
  // the process is not root.
  std::optional<uid_t> gives_to = std::nullopt;
  // True = the owner may read and change each copy regardless of the original's mode, and execute copies that begin
  // with "#!".
  bool opens = false;
};

// `from` is a folder in `parent`, or a path with AT_FDCWD. It must not change during the copy. `to` is a folder that no
// other process can enter until the copy is done. It also gets the mode, times, and attributes. If the disk is full or
// resources are exhausted, returns an error as in ErrnoStatus. Returns DATA_LOSS if the files themselves are the
// problem, so that a retry would not help. After an error, the state of `to` is undefined.
absl::Status CopyTree(int parent, const std::string& from, int to, const TreeCopy& how);

}  // namespace ingot::sandbox
