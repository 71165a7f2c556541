// Removes a tree that an agent may have built, at any depth, including folders without permissions. Never follows
// links.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

// Removes a folder or file. It may be missing. Removes as much as possible. Returns UNAVAILABLE, naming the first entry
// that remains.
absl::Status RemoveTree(const std::string& path);
// Same as above, but for `name` in `parent`.
absl::Status RemoveTree(int parent, const std::string& name);

}  // namespace ingot::sandbox
