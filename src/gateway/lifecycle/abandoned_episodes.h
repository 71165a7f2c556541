// Ends the episodes of runners that were started again. Thread safe; it has no state and no lock: OpenEpisodes remembers
// the incarnations seen. Both methods block for the pool, the scheduler and other gateways: call them without a lock.
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
  // All outlive it.
  AbandonedEpisodes(Core& core, OpenEpisodes& open, Placement& placement, EpisodeEnds& ends)
      : core_(core), open_(open), placement_(placement), ends_(ends) {}

  // Ends the episodes that earlier incarnations of the runner left open. ABORTED: a newer incarnation was seen, and
  // this request of an earlier incarnation came late.
  absl::Status EndEarlier(const std::string& runner, const std::string& incarnation);
  // Ends an episode whose runner was started again while it was opened: then ABORTED.
  absl::Status EndIfAbandoned(const std::shared_ptr<Episode>& opened);

 private:
  // Takes over the episodes of earlier incarnations that other gateways serve.
  absl::Status TakeFromOthers(const std::string& runner, const std::string& incarnation);

  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
  EpisodeEnds& ends_;
};

}  // namespace ingot::gateway
