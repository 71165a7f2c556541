// Stores the rewards and ends of episodes, on request or after a deadline. Thread safe; it has no lock: Episode orders
// the rewards and ends of one episode (TakeRewardTurn, StartEnd), and OpenEpisodes the due ends. All methods but EndDue
// block for the pool, the scheduler and other gateways: call them without a lock.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/episodes/snapshot_desk.h"
#include "gateway/lifecycle/episode_access.h"
#include "gateway/placement/fencing.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class EpisodeEnds {
 public:
  // All outlive it.
  EpisodeEnds(Core& core, OpenEpisodes& open, EpisodeAccess& access, Fencing& fencing, SnapshotDesk& desk)
      : core_(core), open_(open), access_(access), fencing_(fencing), desk_(desk) {}

  // Gateway::RewardEpisode and EndEpisode.
  absl::Status RewardEpisode(const v1::EpisodeRewardRequest& request, const std::function<bool()>& client_gone);
  absl::StatusOr<v1::EpisodeEndResponse> EndEpisode(const v1::EpisodeEndRequest& request);
  // Gateway::EndUncalled.
  absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request);
  // `free_key`: RememberedEnds::Remember.
  absl::StatusOr<v1::EpisodeEndResponse> End(const std::shared_ptr<Episode>& episode, const Episode::AskedEnd& asked,
                                             bool free_key);
  // Ends episodes that passed a deadline or were idle too long, and tries failed ends again, on the gateway's workers.
  // Does not block.
  void EndDue();

 private:
  // An open episode that an outside client opened and that has made no call. Errors are v1::Gateway.EndUncalled's.
  absl::StatusOr<std::shared_ptr<Episode>> FindUncalled(const std::string& episode_id);
  // Stores the end in the pool. If the pool rejects it for good, `end` becomes the end that the pool holds, or the end
  // of a lost episode, and `rejected` the reason. An outcome that another process stored instead does not count: the
  // episode is lost.
  absl::Status StoreEnd(v1::StoreEndRequest& end, std::string& rejected);
  // Reports the stored end to admission. If admission will never know the episode, `rejected` becomes the reason.
  absl::Status ReportEnd(const Episode& episode, const v1::StoreEndRequest& end, std::string& rejected);

  Core& core_;
  OpenEpisodes& open_;
  EpisodeAccess& access_;
  Fencing& fencing_;
  SnapshotDesk& desk_;
};

}  // namespace ingot::gateway
