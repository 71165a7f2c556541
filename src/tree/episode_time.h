// The time of an episode. Pure.
#pragma once

#include <algorithm>

#include "proto/tree.pb.h"

namespace ingot::tree {

// Seconds from the opening to the end; 0 = the episode is open. One process takes both times from its monotonic clock.
// The time is 0 too if another process ended the episode and the wall clock was set back in between.
inline double SecondsOf(const v1::Episode& episode) {
  if (episode.ended_unix_ns() == 0 || episode.opened_unix_ns() == 0) return 0;
  return std::max(0.0, static_cast<double>(episode.ended_unix_ns() - episode.opened_unix_ns()) * 1e-9);
}

// The same, and of an open episode the seconds from its opening to the end of its last call so far.
inline double SecondsOf(const v1::EpisodeTree& tree) {
  v1::Episode episode;
  episode.set_opened_unix_ns(tree.episode().opened_unix_ns());
  int64_t end = tree.episode().ended_unix_ns();
  if (end == 0) {
    for (const v1::Call& call : tree.calls()) end = std::max<int64_t>(end, call.times().end_unix_ns());
  }
  episode.set_ended_unix_ns(end);
  return SecondsOf(episode);
}

}  // namespace ingot::tree
