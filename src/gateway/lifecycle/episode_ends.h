// Stores rewards and ends episodes, on request or after a deadline. Thread safe. Has no lock: Episode serializes
// rewards and the request to end the episode (TakeRewardTurn, StartEnd), and OpenEpisodes orders the episodes that are
// due to end. All methods except EndDue block on the pool, the scheduler, and other gateways. Call them without holding
// a lock.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/episodes/snapshot_requests.h"
#include "gateway/lifecycle/episode_access.h"
#include "gateway/placement/fencing.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class EpisodeEnds {
 public:
  // All arguments must outlive this object.
  EpisodeEnds(Core& core, OpenEpisodes& open, EpisodeAccess& access, Fencing& fencing,
              SnapshotRequests& snapshot_requests)
      : core_(core), open_(open), access_(access), fencing_(fencing), snapshot_requests_(snapshot_requests) {}

  // See Gateway::RewardEpisode and Gateway::EndEpisode.
  absl::Status RewardEpisode(const v1::EpisodeRewardRequest& request, const std::function<bool()>& client_gone);
  absl::StatusOr<v1::EpisodeEndResponse> EndEpisode(const v1::EpisodeEndRequest& request);
  // See Gateway::EndUncalled.
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request);
  // `free_key` is as in RememberedEnds::Remember.
  absl::StatusOr<v1::EpisodeEndResponse> End(const std::shared_ptr<Episode>& episode,
                                             const Episode::RequestedEnd& asked, bool free_key);
  // Schedules work on the workers that ends episodes that are past a deadline or idle too long, and retries failed
  // attempts to end an episode. Does not block.
  void EndDue();

 private:
  // Returns the episode if it is open, was opened by an external client, and has made no call. Otherwise returns the
  // errors of v1::Gateway.EndUncalled.
  absl::StatusOr<std::shared_ptr<Episode>> FindUncalled(const std::string& episode_id);
  // Stores in the pool that the episode ended. If the pool permanently rejects this, sets `end` to what the pool has
  // stored, or to the request for a lost episode, and `rejected` to the reason. An outcome that another process stored
  // instead does not count: the episode is lost.
  absl::Status StoreEnd(v1::StoreEndRequest& end, std::string& rejected);
  // Reports the stored end to admission. If admission permanently rejects the report, sets `rejected` to the reason.
  absl::Status ReportEnd(const Episode& episode, const v1::StoreEndRequest& end, std::string& rejected);

  Core& core_;
  OpenEpisodes& open_;
  EpisodeAccess& access_;
  Fencing& fencing_;
  SnapshotRequests& snapshot_requests_;
};

}  // namespace ingot::gateway
