// Decides which episode a caller may use, by its key. Thread safe. Has no state or lock. All methods may first place
// the episode, which blocks on the pool and other gateways. Call them without holding a lock.
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
  // All arguments must outlive this object.
  EpisodeAccess(Core& core, OpenEpisodes& open, Placement& placement)
      : core_(core), open_(open), placement_(placement) {}

  // Returns the episode that the caller may use, or null if there is none yet but a session may be opened for its key.
  // Returns 403 for another episode's key or the admin key, 401 for a missing or unknown key, 404 for an unknown
  // episode, and 410 if the episode has ended.
  absl::StatusOr<std::shared_ptr<Episode>> FindForCall(const Caller& caller);
  // Returns the messages of the episode's recorded calls, or the errors of FindByKey and the pool.
  absl::StatusOr<v1::ReadMessagesResponse> ReadMessages(const v1::ReadMessagesRequest& request);
  // Returns the episode if `key` is its owner's or the admin key. Returns the same errors as FindForCall, and also 403
  // for the call key.
  absl::StatusOr<std::shared_ptr<Episode>> FindByKey(const std::string& episode_id, const std::string& key);

 private:
  Core& core_;
  OpenEpisodes& open_;
  Placement& placement_;
};

}  // namespace ingot::gateway
