// Decides whether an episode may open. The gateway defines this interface, and the app implements it with the
// scheduler, either in process or over gRPC. `ingot serve` has no Admission and accepts every episode. Thread safe. May
// block on a journal write, so the gateway never calls it on an I/O thread.
#pragma once

#include <string>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class Admission {
 public:
  virtual ~Admission() = default;
  // Returns RESOURCE_EXHAUSTED (429) if the run is at capacity, or FAILED_PRECONDITION (410) if the run is over.
  virtual absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) = 0;
  // Called after the pool has durably stored the episode's end.
  virtual absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) = 0;
};

// Builds the request that reports an episode's end. `earned` is the episode's return.
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
