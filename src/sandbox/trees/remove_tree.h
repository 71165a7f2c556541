// RemoveTree removes a tree that an agent may have made, of any depth and with closed folders, and follows no link.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::sandbox {

// `path`: a folder or a file; it may be missing. Removes all that it can. UNAVAILABLE names the first thing that stays.
absl::Status RemoveTree(const std::string& path);
// The same of `name` in `parent`.
absl::Status RemoveTree(int parent, const std::string& name);

}  // namespace ingot::sandbox
