// LinkTree gives a folder the tree of another one, by hard links in place of copies. An agent may have made the tree, to break
// the one who takes it: deeper than any path may be long, with files that can have no more links, with closed folders.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

// `from`: a folder that nobody changes. `to`: an empty one, which gets owner, mode, times and attributes too. A file that can
// have no more links, or none on another file system, is copied once. The errors of a disk or a process without room are those of ErrnoStatus.
// DATA_LOSS: the files themselves are at fault, and a second try is none. After an error `to` is in no defined state.
absl::Status LinkTree(const std::string& from, const std::string& to);

}  // namespace ingot::sandbox
