// CopyTree gives a folder the tree of another one: copies of its files, or hard links to them. An agent may have made
// the tree to break the copy: deeper than any path may be long, with files that can have no more links, with closed
// folders, with links out of it. CopyTree only goes through descriptors (tree_walk.h, base/open_file.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/status.h"

namespace ingot::sandbox {

struct TreeCopy {
  // True: files are linked. A file that can have no more links, or is on another file system, is copied once. False:
  // all are copied, as clones if the file system has them; names of one file stay names of one file.
  bool links = false;
  // True: `to` has entries. Folders merge with them, unless an overlay's mark hides the lower one (layers.h); anything
  // else replaces them.
  bool merges = false;
  // Files of other users are left out: an agent may have linked to one that it cannot read. Empty = none are.
  std::optional<uid_t> only_of = std::nullopt;
  // The owner of the copies, without setuid and setgid. Empty = the original's owner, or this process's user if it is
  // not root.
  std::optional<uid_t> gives_to = std::nullopt;
  // True: its owner may read and change each copy, whatever the original's mode, and execute a copy that begins with
  // "#!".
  bool opens = false;
};

// `from`: a folder in `parent`, or a path and AT_FDCWD; must not change. `to`: a folder that no other process can enter
// until the end. It gets mode, times and attributes too. A full disk or a process out of resources fails as in
// ErrnoStatus. DATA_LOSS: the files themselves are at fault, and a second try does not help. After an error `to` is in
// an undefined state.
absl::Status CopyTree(int parent, const std::string& from, int to, const TreeCopy& how);

}  // namespace ingot::sandbox
