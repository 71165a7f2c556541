// Gateway: finds which of several gateways serves an episode, or takes over the episode.
//
//   pool: Episode.gateway = "gateway-1:..." ──▶ is it there, and does it answer that it serves the episode?
//                                                yes: the request is forwarded to it (http_forward.h)
//                                                no:  TakeOverEpisode under the next token; its later writes fail
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/gateway.h"

namespace ingot::gateway {
namespace {

constexpr std::chrono::seconds kSilence(5);  // how long a gateway that did not answer is not asked again
constexpr int kTries = 3;                    // to take over an episode that other gateways take at the same time

}  // namespace

std::shared_ptr<Episode> Gateway::UnlessTaken(const std::shared_ptr<Episode>& episode) {
  if (!episode->taken()) return episode;
  ++losses_;
  unread_ends_.erase(episode->id());
  const auto by_id = by_id_.find(episode->id());
  if (by_id != by_id_.end() && by_id->second == episode) by_id_.erase(by_id);
  const auto by_key = by_key_.find(episode->key_hash());
  if (by_key != by_key_.end() && by_key->second == episode) by_key_.erase(by_key);
  return nullptr;
}

std::shared_ptr<Episode> Gateway::FindOpen(const std::string& episode_id) {
  const auto found = by_id_.find(episode_id);
  return found == by_id_.end() ? nullptr : UnlessTaken(std::shared_ptr<Episode>(found->second));
}

std::shared_ptr<Episode> Gateway::FindOpenByHash(const std::string& key_hash) {
  const auto found = by_key_.find(key_hash);
  return found == by_key_.end() ? nullptr : UnlessTaken(std::shared_ptr<Episode>(found->second));
}

bool Gateway::IsHere(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  return FindOpen(episode_id) != nullptr;
}

int64_t Gateway::Losses() const {
  base::MutexLock lock(mu_);
  return losses_;
}

bool Gateway::MayBeElsewhere(const Caller& caller) {
  if (core_.parts.peers == nullptr || core_.parts.pool == nullptr) return false;
  if (!caller.episode.empty()) {
    base::MutexLock lock(mu_);
    return FindOpen(caller.episode) == nullptr && !ended_keys_.contains(caller.episode);
  }
  if (caller.api_key.empty() || IsAdmin(caller.api_key)) return false;
  const KeyHashes hashes(caller.api_key);
  base::MutexLock lock(mu_);
  return FindOpenByHash(hashes.as_caller) == nullptr && FindOpenByHash(hashes.as_owner) == nullptr &&
         !ended_by_key_.contains(hashes.as_caller) && !ended_by_key_.contains(hashes.as_owner);
}

absl::StatusOr<std::string> Gateway::Place(const Caller& caller) {
  if (!MayBeElsewhere(caller)) return std::string();
  return caller.episode.empty() ? PlaceByKey(caller.api_key) : PlaceById(caller.episode);
}

void Gateway::EnterPlacing(const std::string& episode_id) {
  while (placing_.contains(episode_id)) changed_.Wait(mu_);
  placing_.insert(episode_id);
}

void Gateway::LeavePlacing(const std::string& episode_id) {
  base::MutexLock lock(mu_);
  placing_.erase(episode_id);
  changed_.SignalAll();
}

absl::StatusOr<std::string> Gateway::PlaceById(const std::string& episode_id) {
  {
    base::MutexLock lock(mu_);
    EnterPlacing(episode_id);
    if (FindOpen(episode_id) != nullptr || ended_keys_.contains(episode_id)) {
      placing_.erase(episode_id);
      changed_.SignalAll();
      return std::string();
    }
  }
  absl::StatusOr<std::string> place = FindPlace(episode_id);
  LeavePlacing(episode_id);
  return place;
}

absl::StatusOr<std::string> Gateway::FindPlace(const std::string& episode_id) {
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode_id);
  for (int i = 0; i < kTries; ++i) {
    const auto stored = core_.parts.pool->GetEpisode(get);
    if (absl::IsNotFound(stored.status())) return std::string();
    INGOT_RETURN_IF_ERROR(stored.status());
    const v1::Episode& episode = stored->episode();
    if (episode.state() != v1::EPISODE_OPEN) {
      RecallEnd(episode_id);
      return std::string();
    }
    std::string role = RoleOfGateway(episode.gateway());
    if (role != RoleOfGateway(core_.parts.name) && AnswersFor(role, episode_id)) return role;
    const absl::Status taken = TakeAlone(episode);
    if (taken.ok()) return std::string();
    if (!absl::IsFailedPrecondition(taken)) return taken;
  }
  return EpisodeElsewhere(episode_id);
}

bool Gateway::AnswersFor(const std::string& role, const std::string& episode_id) {
  const auto present = core_.parts.peers->Present();
  if (present.ok() && std::find(present->begin(), present->end(), role) == present->end()) return false;
  v1::ServesRequest question;
  question.set_episode_id(episode_id);
  const auto answer = Ask(role, question);
  return answer.ok() && !answer->episode_id().empty();
}

absl::StatusOr<v1::ServesResponse> Gateway::Ask(const std::string& role, const v1::ServesRequest& question) {
  const base::Clock& clock = *core_.parts.clock;
  {
    base::MutexLock lock(mu_);
    const auto silent = silent_until_.find(role);
    if (silent != silent_until_.end() && clock.Now() < silent->second) {
      return absl::UnavailableError(role + " did not answer a moment ago");
    }
  }
  auto answer = core_.parts.peers->Serves(role, question);
  if (answer.ok()) return answer;
  INGOT_LOG(warn, "{} does not answer; this gateway takes over its episodes as requests for them arrive: {}", role,
            std::string(answer.status().message()));
  base::MutexLock lock(mu_);
  silent_until_[role] = clock.Now() + kSilence;
  return answer;
}

absl::StatusOr<std::string> Gateway::PlaceOpening(const std::string& idempotency_key) {
  const std::string key = OwnerKeyOf(idempotency_key);
  if (!MayBeElsewhere({.api_key = key, .episode = {}})) return std::string();
  const KeyPlace place = AskForKey(key);
  // A gateway that gives no answer may have opened the episode before. Without this, its next process, or the gateway
  // itself when it resumes, would serve an episode without a runner.
  return place.role.empty() && !place.all_answered ? PlaceByPool(key) : place.role;
}

Gateway::KeyPlace Gateway::AskForKey(const std::string& key) {
  const std::vector<std::string> others = core_.parts.peers->Others();
  if (others.empty()) return {.role = "", .episode_id = "", .all_answered = true};
  const auto present = core_.parts.peers->Present();
  const KeyHashes hashes(key);
  KeyPlace place{.role = "", .episode_id = "", .all_answered = true};
  for (const std::string& role : others) {
    bool answers = !present.ok() || std::find(present->begin(), present->end(), role) != present->end();
    for (const std::string& hash : {hashes.as_caller, hashes.as_owner}) {
      if (!answers) break;
      v1::ServesRequest question;
      question.set_key_hash(hash);
      const auto answer = Ask(role, question);
      answers = answer.ok();
      if (answers && !answer->episode_id().empty()) {
        return {.role = role, .episode_id = answer->episode_id(), .all_answered = true};
      }
    }
    place.all_answered = place.all_answered && answers;
  }
  return place;
}

// Another gateway answers from its memory, so the pool decides about the episode that it names. An answer "none" is
// true for a gateway that answers: an episode that it lost is in the memory of the gateway that took it.
absl::StatusOr<std::string> Gateway::PlaceByKey(const std::string& key) {
  const KeyPlace place = AskForKey(key);
  if (!place.episode_id.empty()) return PlaceById(place.episode_id);
  return place.all_answered ? std::string() : PlaceByPool(key);
}

absl::StatusOr<std::string> Gateway::PlaceByPool(const std::string& key) {
  const KeyHashes hashes(key);
  INGOT_ASSIGN_OR_RETURN(const std::string episode_id, key_search_.Find({hashes.as_owner, hashes.as_caller}));
  return episode_id.empty() ? std::string() : PlaceById(episode_id);
}

absl::Status Gateway::TakeOver(const v1::Episode& episode) {
  {
    base::MutexLock lock(mu_);
    EnterPlacing(episode.episode_id());
  }
  const absl::Status taken = TakeAlone(episode);
  LeavePlacing(episode.episode_id());
  return taken;
}

absl::Status Gateway::TakeAlone(const v1::Episode& episode) {
  {
    base::MutexLock lock(mu_);
    const auto here = FindOpen(episode.episode_id());
    if (here != nullptr && here->gateway_token() > episode.gateway_token()) return absl::OkStatus();
  }
  v1::TakeOverEpisodeRequest take;
  take.set_episode_id(episode.episode_id());
  take.set_gateway(core_.parts.name);
  take.set_gateway_token(episode.gateway_token() + 1);
  INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree tree, core_.parts.pool->TakeOverEpisode(take));
  INGOT_RETURN_IF_ERROR(GoOn(std::move(tree)));
  ++core_.counters.episodes_taken;
  return absl::OkStatus();
}

v1::ServesResponse Gateway::Serves(const v1::ServesRequest& request) {
  v1::ServesResponse response;
  base::MutexLock lock(mu_);
  const auto episode =
      request.episode_id().empty() ? FindOpenByHash(request.key_hash()) : FindOpen(request.episode_id());
  if (episode != nullptr) response.set_episode_id(episode->id());
  return response;
}

}  // namespace ingot::gateway
