// Which of several gateways serves an episode. Takes over the episode if its gateway is gone or does not answer.
//
//   pool: Episode.gateway = "gateway-1:..." ──▶ is it there, and does it answer that it serves the episode?
//                                                yes: the request is forwarded to it (http_forward.h)
//                                                no:  TakeOverEpisode under the next token; its later writes fail
//
// Thread safe. Lock: mu_ guards only the times until which gateways are not asked. Place, PlaceOpening, PlaceOfKey,
// TakeOver and Continue block for the pool and for other gateways: call them without a lock. They hold none meanwhile;
// OpenEpisodes::EnterPlacing keeps two threads from placing one episode.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "gateway/caller.h"
#include "gateway/core.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/placement/key_search.h"
#include "proto/gateway.pb.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

class Placement {
 public:
  // Both outlive it.
  Placement(Core& core, OpenEpisodes& open) : core_(core), open_(open), key_search_(core.parts.pool) {}

  // Whether another gateway may serve the caller's episode. Does not block.
  bool MayBeElsewhere(const Caller& caller);
  // The role of the gateway that serves the caller's episode; empty = this gateway, or there is no such episode. Takes
  // over the episode if its gateway is gone or does not answer.
  absl::StatusOr<std::string> Place(const Caller& caller);
  // Like Place, for an opening that may repeat an opening at another gateway. If a gateway does not answer, looks for
  // the opening in the pool and takes over its episode.
  absl::StatusOr<std::string> PlaceOpening(const std::string& idempotency_key);
  // The role of another gateway that says it serves the key's episode; empty = none. Takes over nothing.
  std::string AskWhoServes(const std::string& key);
  // The answer to other gateways' Place. Does not block.
  v1::ServesResponse Serves(const v1::ServesRequest& request);
  // Remembers an end that an earlier gateway stored, or that was forgotten here.
  void RecallEnd(const std::string& episode_id);
  // Makes this gateway serve the pool's open episode, unless it took the episode after `episode` was read.
  // FAILED_PRECONDITION: the episode has ended, or another gateway was faster.
  absl::Status TakeOver(const v1::Episode& episode);
  // Serves an open episode, starting from its stored tree.
  absl::Status Continue(v1::EpisodeTree tree);

 private:
  struct KeyPlace {
    std::string role;           // of the gateway that says it serves the key's episode; empty = none
    std::string episode_id;     // of that episode
    bool all_answered = false;  // all other gateways of the run
  };
  KeyPlace AskForKey(const std::string& key);
  absl::StatusOr<std::string> PlaceByKey(const std::string& key);
  // The role of the gateway that serves the pool's open episode of this key, as PlaceById. Empty = no such episode.
  absl::StatusOr<std::string> PlaceByPool(const std::string& key);
  absl::StatusOr<std::string> PlaceById(const std::string& episode_id);
  // REQUIRES, also of TakeAlone: this thread is placing the episode (OpenEpisodes::EnterPlacing).
  absl::StatusOr<std::string> FindPlace(const std::string& episode_id);
  absl::Status TakeAlone(const v1::Episode& episode);
  // Asks a gateway; UNAVAILABLE at once, if it did not answer a moment ago.
  absl::StatusOr<v1::ServesResponse> Ask(const std::string& role, const v1::ServesRequest& question);
  // Whether a gateway answers that it serves the episode.
  bool AnswersFor(const std::string& role, const std::string& episode_id);

  Core& core_;
  OpenEpisodes& open_;
  KeySearch key_search_;  // own synchronisation

  base::Mutex mu_;
  // Gateways that did not answer, by role: until this time they are not asked again, and their episodes are taken over.
  std::map<std::string, std::chrono::nanoseconds> silent_until_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
