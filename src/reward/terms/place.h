// Ranks of sizes within a group, for terms that favor smaller sizes: 0.5 for the smallest, -0.5 for the largest, linear
// between them, and 0 if all are equal.
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
