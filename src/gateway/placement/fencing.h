// Answers about an episode that another gateway may have taken meanwhile.
//
// Writes carry the episode's token, so that the pool rejects writes of a gateway that was unresponsive for too long. An
// answer from memory needs a check with the pool instead, but only if the client would act on it: an error that no
// client retries, such as "it has no reward" or "it has recorded no such call". The check follows the decision: if the
// gateway still serves the episode then, its memory was right before. The check is always needed: a gateway that takes
// an episode does not wait for a lease of this gateway.
//
// Thread safe; it has no state and no lock. All methods but GiveUp block for the pool: call them without a lock.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/episode.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/episodes/snapshot_desk.h"

namespace ingot::gateway {

class Fencing {
 public:
  // All outlive it.
  Fencing(Core& core, OpenEpisodes& open, SnapshotDesk& desk) : core_(core), open_(open), desk_(desk) {}

  // Forgets an episode that another gateway took, and returns the error of its requests.
  absl::Status GiveUp(const std::shared_ptr<Episode>& episode);
  // OK = the pool says that this gateway still serves the episode.
  absl::Status CheckServed(const std::shared_ptr<Episode>& episode);
  // Returns `rejection` if it is confirmed by the pool or needs no confirmation; otherwise an error that makes the
  // client retry.
  absl::Status Confirmed(const std::shared_ptr<Episode>& episode, absl::Status rejection);
  // Whether a snapshot request for the episode may go out. Forgets requests of episodes that are no longer here.
  bool IsServed(const std::string& episode_id);
  // Call it before naming a call by its number, or by an id that is not known here: finds out which calls with lost
  // responses the pool holds. UNAVAILABLE: the pool does not answer, or has answered only some of the requests within
  // end_wait_s.
  absl::Status SettleCalls(const std::shared_ptr<Episode>& episode);
  // Call it before an end that depends on an earlier reward: if no reward is known, reads from the pool whether there
  // is one.
  absl::Status ReadReward(const std::shared_ptr<Episode>& episode);

 private:
  Core& core_;
  OpenEpisodes& open_;
  SnapshotDesk& desk_;
};

}  // namespace ingot::gateway
