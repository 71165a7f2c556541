// Takes over the pool's open episodes after a start, and when another gateway is gone. It has no state and no lock; both
// methods block for the pool: call them without a lock.
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
  // All outlive it.
  Recovery(Core& core, OpenEpisodes& open, Placement& placement) : core_(core), open_(open), placement_(placement) {}

  // Gateway::Recover.
  absl::Status Recover(const std::string& gone);

 private:
  // Serves an episode of the only gateway, whose episodes carry no token.
  absl::Status ContinueAlone(const std::string& episode_id);
  // Ends an unreadable episode as lost, so that its sample is tried again.
  absl::Status EndUnread(const v1::Episode& episode, const absl::Status& why);

  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
};

}  // namespace ingot::gateway
