// Decides whether an episode may open. The gateway owns the interface. The app implements it with the scheduler, in
// process or over gRPC; `ingot serve` has no Admission, and every episode is served. Thread safe. May block for a
// journal write, so the gateway never calls it on I/O threads.
#pragma once

#include <string>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class Admission {
 public:
  virtual ~Admission() = default;
  // RESOURCE_EXHAUSTED: full at the moment (429). FAILED_PRECONDITION: the run is over (410).
  virtual absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) = 0;
  // The episode's end is durable in the pool.
  virtual absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) = 0;
};

// The report of an end. `earned`: the episode's return.
inline v1::ReportEpisodeEndRequest MakeEnded(const v1::Episode& episode, v1::EpisodeState state, double earned,
                                             const std::string& detail) {
  v1::ReportEpisodeEndRequest ended;
  *ended.mutable_ref() = episode.ref();
  ended.set_purpose(episode.purpose());
  ended.set_state(state);
  ended.set_reward(earned);
  ended.set_detail(detail);
  ended.set_pinned_version(episode.pinned_version());
  ended.set_episode_id(episode.episode_id());
  ended.set_runner(episode.runner());
  ended.set_scaffold(episode.scaffold());
  return ended;
}

}  // namespace ingot::gateway
