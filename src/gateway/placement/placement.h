// Decides which gateway serves an episode. Takes over the episode if its gateway is gone or does not answer.
//
//   pool: Episode.gateway = "gateway-1:..." ──▶ is it there, and does it answer that it serves the episode?
//                                                yes: the request is forwarded to it (http_forward.h)
//                                                no:  TakeOverEpisode under the next token; its later writes fail
//
// Thread safe. mu_ guards only silent_until_. All methods except MayBeElsewhere and Serves block on the pool or on
// other gateways. They hold no lock while blocking. Call them without holding a lock. OpenEpisodes::EnterPlacing
// prevents two threads from placing the same episode.
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
  // Both arguments must outlive this object.
  Placement(Core& core, OpenEpisodes& open) : core_(core), open_(open), key_search_(core.parts.pool) {}

  // Returns true if another gateway may serve the caller's episode. Does not block.
  bool MayBeElsewhere(const Caller& caller);
  // Returns the role of the gateway that serves the caller's episode, or "" if it is this gateway or if there is no
  // such episode. Takes over the episode if its gateway is gone or does not answer.
  absl::StatusOr<std::string> Place(const Caller& caller);
  // Like Place, but for a request to open an episode, which another gateway may already have handled. If a gateway does
  // not answer, looks for the episode in the pool and takes it over.
  absl::StatusOr<std::string> PlaceOpening(const std::string& idempotency_key);
  // Returns the role of another gateway that reports serving the key's episode, or "" if there is none. Does not take
  // over the episode.
  std::string AskWhoServes(const std::string& key);
  // Answers Place calls from other gateways. Does not block.
  v1::ServesResponse Serves(const v1::ServesRequest& request);
  // Remembers an ended episode that an earlier gateway stored, or that this gateway has forgotten.
  void RecallEnd(const std::string& episode_id);
  // Makes this gateway serve the open episode from the pool, unless it has already taken the episode over since
  // `episode` was read. Returns FAILED_PRECONDITION if the episode has ended or if another gateway took it first.
  absl::Status TakeOver(const v1::Episode& episode);
  // Serves an open episode, starting from its stored tree.
  absl::Status Continue(v1::EpisodeTree tree);

 private:
  struct KeyPlace {
    std::string role;           // role of the gateway that reports serving the key's episode; empty = none
    std::string episode_id;     // id of that episode
    bool all_answered = false;  // true = all of the run's other gateways have answered
  };
  KeyPlace AskForKey(const std::string& key);
  absl::StatusOr<std::string> PlaceByKey(const std::string& key);
  // Looks up the key's open episode in the pool. Returns the role of the gateway that serves it, like PlaceById, or ""
  // if there is no such episode.
  absl::StatusOr<std::string> PlaceByPool(const std::string& key);
  absl::StatusOr<std::string> PlaceById(const std::string& episode_id);
  // REQUIRES for FindPlace and TakeAlone: this thread is placing the episode (OpenEpisodes::EnterPlacing).
  absl::StatusOr<std::string> FindPlace(const std::string& episode_id);
  absl::Status TakeAlone(const v1::Episode& episode);
  // Queries a gateway. Returns UNAVAILABLE immediately if the gateway recently failed to answer.
  absl::StatusOr<v1::ServesResponse> Ask(const std::string& role, const v1::ServesRequest& question);
  // Returns true if the gateway answers that it serves the episode.
  bool AnswersFor(const std::string& role, const std::string& episode_id);

  Core& core_;
  OpenEpisodes& open_;
  KeySearch key_search_;  // has its own lock

  base::Mutex mu_;
  // Gateways that did not answer, by role. Until this time, they are not queried and their episodes are taken over.
  std::map<std::string, std::chrono::nanoseconds> silent_until_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
