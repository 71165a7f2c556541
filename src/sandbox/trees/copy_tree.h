// CopyTree gives a folder the tree of another one: copies of its files, or hard links to them. An agent may have made the tree,
// to break whoever takes it: deeper than any path may be long, with files that can have no more links, with closed folders, with
// links out of it. The way goes by descriptors alone (tree_walk.h, base/open_file.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/status.h"

namespace ingot::sandbox {

struct TreeCopy {
  // True: files are linked. One that can have no more links, or none on another file system, is copied once. False: all are
  // copied, as clones where the file system has them; names of one file stay names of one file.
  bool links = false;
  // True: `to` has entries. Folders merge with them, unless an overlay's mark hides the lower one (layers.h); anything else
  // replaces them.
  bool merges = false;
  // Files of other users are left out: an agent may have linked to one that it cannot read. Empty = none are.
  std::optional<uid_t> only_of = std::nullopt;
  // The owner of the copies, without its setuid and setgid. Empty = whoever owns the original,
  // or this process's user where it is not root.
  std::optional<uid_t> gives_to = std::nullopt;
};

// `from`: a folder in `parent`, or a path and AT_FDCWD; nobody changes it. `to`: a folder that nobody else can enter until the
// end. It gets mode, times and attributes too. The errors of a disk or a process without room are as of ErrnoStatus.
// DATA_LOSS: the files themselves are at fault, and a second try is none. After an error `to` is in no defined state.
absl::Status CopyTree(int parent, const std::string& from, int to, const TreeCopy& how);

}  // namespace ingot::sandbox
