// Ends the episodes of restarted runners. Thread safe. Has no state or lock: OpenEpisodes remembers the incarnations.
// Both methods block on the pool, the scheduler, and other gateways. Call them without holding a lock.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/lifecycle/episode_ends.h"
#include "gateway/placement/placement.h"

namespace ingot::gateway {

class AbandonedEpisodes {
 public:
  // All arguments must outlive this object.
  AbandonedEpisodes(Core& core, OpenEpisodes& open, Placement& placement, EpisodeEnds& ends)
      : core_(core), open_(open), placement_(placement), ends_(ends) {}

  // Ends the episodes that the runner's earlier incarnations left open. Returns ABORTED if a newer incarnation has
  // already been seen.
  absl::Status EndEarlier(const std::string& runner, const std::string& incarnation);
  // If the episode's runner was restarted while the episode was being opened, ends the episode and returns ABORTED.
  absl::Status EndIfAbandoned(const std::shared_ptr<Episode>& opened);

 private:
  // Takes over earlier incarnations' episodes that other gateways serve.
  absl::Status TakeFromOthers(const std::string& runner, const std::string& incarnation);

  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
  EpisodeEnds& ends_;
};

}  // namespace ingot::gateway
