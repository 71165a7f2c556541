// Ranks sizes within a group, for terms that favor small sizes. The smallest gets 0.5, the largest gets -0.5, and the
// others are interpolated linearly. If all are equal, each gets 0.
#pragma once

#include <algorithm>
#include <vector>

namespace ingot::reward {

inline std::vector<double> PlacesOf(const std::vector<double>& sizes) {
  std::vector<double> places(sizes.size(), 0);
  if (sizes.empty()) return places;
  const auto [low, high] = std::minmax_element(sizes.begin(), sizes.end());
  if (*low == *high) return places;
  for (size_t i = 0; i < sizes.size(); ++i) places[i] = 0.5 - (sizes[i] - *low) / (*high - *low);
  return places;
}

}  // namespace ingot::reward
