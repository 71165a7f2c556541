// The known key that a wrong one was probably meant to be.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/config.h"

namespace ingot::base {

// Of keys such as "limits.wall_s"; a right word in the wrong section is near too. "" = none is near: at least half of the
// letters of its last word are wrong.
inline std::string NearestKey(const std::string& key, const std::vector<std::string>& known) {
  const auto last = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::string best;
  size_t least = last(key).size() / 2 + 1;
  for (const std::string& each : known) {
    const size_t distance = std::min(EditDistance(key, each), EditDistance(last(key), last(each)) + 1);
    if (distance >= least) continue;
    least = distance;
    best = each;
  }
  return best;
}

}  // namespace ingot::base
