// Shortens folder names for comparing runs.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

// Returns the last component of each path. If several paths have the same last component, returns the shortest unique
// suffixes: "a/run" and "b/run". Identical paths keep the last component. Relative paths are resolved against the
// current directory.
std::vector<std::string> PathTails(const std::vector<std::string>& paths);

}  // namespace ingot::app
