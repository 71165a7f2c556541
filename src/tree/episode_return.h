// The return of an episode, and the comparison of returns. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace ingot::tree {

// The return: the episode's own reward plus the rewards of its calls. `record`: a v1::Episode or v1::EndEpisodeRequest.
template <typename Record>
double ReturnOf(const Record& record) {
  double sum = record.reward();
  for (const auto& [call, reward] : record.call_rewards()) sum += reward;
  return sum;
}

// True if returns between `low` and `high` count as equal: sums of the same rewards differ by their order of addition.
inline bool SameReturn(double low, double high) {
  return high - low <= 1e-9 * std::max({1.0, std::abs(low), std::abs(high)});
}

}  // namespace ingot::tree
