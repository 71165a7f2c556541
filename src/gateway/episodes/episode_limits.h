// Computes an episode's limits.
#pragma once

#include "gateway/options.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

inline constexpr char kEpisodeLimit[] = "episode_limit";  // sent with 400, because clients retry 409 and 429

// Returns the smaller of the two limits; 0 = no limit.
template <typename Number>
Number Tighter(Number own, Number asked) {
  return asked > 0 && (own <= 0 || asked < own) ? asked : own;
}

// Returns the gateway's limits, tightened by the limits that the client requested.
inline v1::EpisodeLimits LimitsFor(const GatewayOptions& options, const v1::EpisodeLimits& asked) {
  v1::EpisodeLimits limits;
  limits.set_max_calls(Tighter(options.max_calls_per_episode, asked.max_calls()));
  limits.set_max_tokens(Tighter(options.max_tokens_per_episode, asked.max_tokens()));
  limits.set_deadline_s(Tighter(options.episode_deadline_s, asked.deadline_s()));
  return limits;
}

}  // namespace ingot::gateway
