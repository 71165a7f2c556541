// Counts the unmasked (query, key) pairs of layers with a sliding window. A row sees its own position and earlier ones,
// at most `window` in total.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace ingot::trainer {

// Returns the count for one sequence. Window 0 = none.
inline int64_t SequencePairs(int64_t length, int64_t window) {
  const int64_t grown = window == 0 ? length : std::min(window, length);
  return grown * (grown + 1) / 2 + (length - grown) * grown;
}

// Returns the count for packed rows, by depth, or 0 without a window.
inline int64_t WindowPairs(std::span<const int32_t> depths, int64_t window) {
  int64_t pairs = 0;
  for (const int32_t depth : depths) pairs += std::min<int64_t>(depth + 1, window);
  return pairs;
}

}  // namespace ingot::trainer
