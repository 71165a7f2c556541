// Short names of folders for a comparison.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

// The last part of each path, or if several paths end the same way, the shortest unique end: "a/run" and "b/run".
// Equal paths keep the last part. Relative paths begin in the current folder.
std::vector<std::string> PathTails(const std::vector<std::string>& paths);

}  // namespace ingot::app
