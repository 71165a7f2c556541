// The limits of an episode.
#pragma once

#include "gateway/options.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

inline constexpr char kEpisodeLimit[] = "episode_limit";  // sent with 400: clients repeat a 409 or 429

// The smaller of the two limits that are set; 0 = not set.
template <typename Number>
Number Tighter(Number own, Number asked) {
  return asked > 0 && (own <= 0 || asked < own) ? asked : own;
}

// The gateway's limits, tightened by the client's.
inline v1::EpisodeLimits LimitsFor(const GatewayOptions& options, const v1::EpisodeLimits& asked) {
  v1::EpisodeLimits limits;
  limits.set_max_calls(Tighter(options.max_calls_per_episode, asked.max_calls()));
  limits.set_max_tokens(Tighter(options.max_tokens_per_episode, asked.max_tokens()));
  limits.set_deadline_s(Tighter(options.episode_deadline_s, asked.deadline_s()));
  return limits;
}

}  // namespace ingot::gateway
