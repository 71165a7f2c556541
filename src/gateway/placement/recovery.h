// Takes over the pool's open episodes at startup and when another gateway is gone. Has no state or lock. Blocks on the
// pool. Call it without holding a lock.
#pragma once

#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/placement/placement.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class Recovery {
 public:
  // All arguments must outlive this object.
  Recovery(Core& core, OpenEpisodes& open, Placement& placement) : core_(core), open_(open), placement_(placement) {}

  // See Gateway::Recover.
  absl::Status Recover(const std::string& gone);

 private:
  // Serves an episode if there is only one gateway, so that its episodes have no token.
  absl::Status ContinueAlone(const std::string& episode_id);
  // Ends an unreadable episode as lost, so its sample is retried.
  absl::Status EndUnread(const v1::Episode& episode, const absl::Status& why);

  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
};

}  // namespace ingot::gateway
