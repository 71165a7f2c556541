// What an episode earned in all. Pure.
#pragma once

namespace ingot::tree {

// `record`: v1::Episode, or what ends one: its own reward, and those of its calls.
template <typename Record>
double ReturnOf(const Record& record) {
  double sum = record.reward();
  for (const auto& [call, reward] : record.call_rewards()) sum += reward;
  return sum;
}

}  // namespace ingot::tree
