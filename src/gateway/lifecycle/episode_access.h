// Decides which episode a caller may use, by its key. Thread safe; it has no state and no lock. All methods may place
// the episode first, which blocks for the pool and for other gateways: call them without a lock.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/caller.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/placement/placement.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class EpisodeAccess {
 public:
  // All outlive it.
  EpisodeAccess(Core& core, OpenEpisodes& open, Placement& placement)
      : core_(core), open_(open), placement_(placement) {}

  // The episode that the caller may use; null = none so far, but a session may be opened for its key. 403: another
  // episode's key, or the admin key. 401: no key, or an unknown one. 404: an unknown episode. 410: it has ended.
  absl::StatusOr<std::shared_ptr<Episode>> FindForCall(const Caller& caller);
  // The messages of the episode's recorded calls. Errors as FindByKey, and the pool's.
  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request);
  // The episode, if `key` is its owner's or the admin key. Errors as FindForCall; 403 also for the call key.
  absl::StatusOr<std::shared_ptr<Episode>> FindByKey(const std::string& episode_id, const std::string& key);

 private:
  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
};

}  // namespace ingot::gateway
