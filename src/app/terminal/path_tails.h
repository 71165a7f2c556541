// Short names of folders that people compare.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

// The last part of each path, or, where several end alike, the shortest end that no other path has: "a/run" and "b/run".
// Equal paths keep the last part. Relative paths begin in the current folder.
std::vector<std::string> PathTails(const std::vector<std::string>& paths);

}  // namespace ingot::app
