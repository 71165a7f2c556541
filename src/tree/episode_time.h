// Computes an episode's duration. Pure functions.
#pragma once

#include <algorithm>

#include "proto/tree.pb.h"

namespace ingot::tree {

// Returns the seconds from opening to end, or 0 if the episode is open. If one process records both times, it uses its
// monotonic clock. Also returns 0 if another process ended the episode and the wall clock was set back in between.
inline double SecondsOf(const v1::Episode& episode) {
  if (episode.ended_unix_ns() == 0 || episode.opened_unix_ns() == 0) return 0;
  return std::max(0.0, static_cast<double>(episode.ended_unix_ns() - episode.opened_unix_ns()) * 1e-9);
}

// Same as above, but for an open episode returns the seconds from its opening to the end of its last call so far.
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
