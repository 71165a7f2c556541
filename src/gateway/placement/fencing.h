// Confirms answers about an episode that another gateway may have taken over.
//
// Writes include the episode's token, so the pool rejects writes from a gateway that was unresponsive for too long. An
// answer from memory must be checked with the pool instead. The check is needed only if the client would act on the
// answer, such as an error that clients do not retry ("it has no reward", "it has recorded no such call"). It runs
// after the decision is made. If the gateway still serves the episode at that point, its memory was correct. Leases
// cannot replace the check because a gateway that takes over an episode does not wait for a lease to expire.
//
// Thread safe. Has no state or lock. All methods except GiveUp block on the pool. Call them without holding a lock.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/episode.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/episodes/snapshot_requests.h"

namespace ingot::gateway {

class Fencing {
 public:
  // All arguments must outlive this object.
  Fencing(Core& core, OpenEpisodes& open, SnapshotRequests& snapshot_requests)
      : core_(core), open_(open), snapshot_requests_(snapshot_requests) {}

  // Forgets an episode that another gateway took over, and returns the error for its requests.
  absl::Status GiveUp(const std::shared_ptr<Episode>& episode);
  // Returns OK if the pool reports that this gateway still serves the episode.
  absl::Status CheckServed(const std::shared_ptr<Episode>& episode);
  // Returns `rejection` if the pool confirms it or if it needs no confirmation. Otherwise, returns an error that makes
  // the client retry.
  absl::Status Confirmed(const std::shared_ptr<Episode>& episode, absl::Status rejection);
  // Returns true if a snapshot request for the episode may be sent. Otherwise, forgets its requests.
  bool IsServed(const std::string& episode_id);
  // Must be called before referring to a call by its sequence number or by an id that is unknown here. Determines which
  // calls with lost responses are in the pool. Returns UNAVAILABLE if the pool does not answer, or if some requests are
  // still unanswered after end_wait_s.
  absl::Status SettleCalls(const std::shared_ptr<Episode>& episode);
  // Must be called before ending an episode in a way that depends on an earlier reward. If no reward is known here,
  // checks the pool for one.
  absl::Status ReadReward(const std::shared_ptr<Episode>& episode);

 private:
  Core& core_;
  OpenEpisodes& open_;
  SnapshotRequests& snapshot_requests_;
};

}  // namespace ingot::gateway
