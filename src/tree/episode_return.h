// What an episode earned in all, and whether episodes earned the same. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace ingot::tree {

// `record`: v1::Episode, or what ends one: its own reward, and those of its calls.
template <typename Record>
double ReturnOf(const Record& record) {
  double sum = record.reward();
  for (const auto& [call, reward] : record.call_rewards()) sum += reward;
  return sum;
}

// Whether returns from `low` to `high` are the same one: sums of the same rewards differ by the order they are added
// in.
inline bool SameReturn(double low, double high) {
  return high - low <= 1e-9 * std::max({1.0, std::abs(low), std::abs(high)});
}

}  // namespace ingot::tree
