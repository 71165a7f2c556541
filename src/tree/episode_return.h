// Computes and compares episode returns. Pure functions.
//
// An episode's return comes from the reward stage's grade, or from the posted reward until there is a grade.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns the episode's own reward plus the rewards of its calls. `record` is a v1::Grade or v1::StoreEndRequest.
template <typename Record>
double ReturnOf(const Record& record) {
  double sum = record.reward();
  for (const auto& [call, reward] : record.call_rewards()) sum += reward;
  return sum;
}
// Returns a term's part of the return, before applying its weight.
inline double ReturnOf(const v1::TermValue& term) {
  double sum = term.value();
  for (const auto& [call, value] : term.calls()) sum += value;
  return sum;
}
inline double ReturnOf(const v1::Episode& episode) {
  return episode.has_grade() ? ReturnOf(episode.grade()) : ReturnOf<v1::Episode>(episode);
}

// Return the trained parts of the return: the episode's own reward, and its calls' rewards.
inline double RewardOf(const v1::Episode& episode) {
  return episode.has_grade() ? episode.grade().reward() : episode.reward();
}
inline const google::protobuf::Map<std::string, double>& CallRewardsOf(const v1::Episode& episode) {
  return episode.has_grade() ? episode.grade().call_rewards() : episode.call_rewards();
}

// Returns the term's value for the episode: its own value plus its values for calls.
inline double ValueOf(const v1::TermValue& term) {
  double value = term.value();
  for (const auto& [call, of_call] : term.calls()) value += of_call;
  return value;
}

inline bool IsEnd(v1::EpisodeState state) {
  return state == v1::EPISODE_FINISHED || state == v1::EPISODE_FAILED || state == v1::EPISODE_INFRASTRUCTURE_FAILED ||
         state == v1::EPISODE_FENCED || state == v1::EPISODE_FORKED;
}

// Returns whether returns ranging from `low` to `high` count as equal. Sums of the same rewards may differ slightly if
// the order differs.
inline bool SameReturn(double low, double high) {
  return high - low <= 1e-9 * std::max({1.0, std::abs(low), std::abs(high)});
}

}  // namespace ingot::tree
