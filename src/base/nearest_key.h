// Finds the known key that the user most likely meant by a misspelled key.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/config.h"

namespace ingot::base {

// Works on keys such as "limits.wall_s". A correct word in the wrong section counts as close. Returns "" if no key is
// close enough, that is, if more than half of the letters in the last word are wrong.
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
