#include "gateway/placement/placement.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode_key.h"
#include "gateway/episodes/episode_limits.h"
#include "gateway/episodes/failed_attempts.h"
#include "gateway/episodes/recorded_calls.h"

namespace ingot::gateway {
namespace {

constexpr std::chrono::seconds kSilence(5);  // how long to skip a gateway that did not answer
constexpr int kTries = 3;                    // takeover attempts when several gateways compete

// Returns a lower bound on an episode's age, based on its call times, which monotonic clocks count from the opening.
// This machine's wall clock may have been set since then, or may differ from the clock of the gateway that opened the
// episode.
std::chrono::nanoseconds AgeOf(const v1::EpisodeTree& tree) {
  const int64_t opened = tree.episode().opened_unix_ns();
  int64_t reached = opened;
  for (const v1::Call& call : tree.calls()) {
    reached = std::max({reached, call.times().arrival_unix_ns(), call.times().end_unix_ns()});
  }
  return std::chrono::nanoseconds(reached - opened);
}

}  // namespace

bool Placement::MayBeElsewhere(const Caller& caller) {
  if (core_.parts.peers == nullptr || core_.parts.pool == nullptr) return false;
  if (!caller.episode.empty()) return open_.IsUnknown(caller.episode);
  if (caller.api_key.empty() || core_.admin_key.Is(caller.api_key)) return false;
  return open_.IsUnknown(KeyHashes(caller.api_key));
}

absl::StatusOr<std::string> Placement::Place(const Caller& caller) {
  if (!MayBeElsewhere(caller)) return std::string();
  return caller.episode.empty() ? PlaceByKey(caller.api_key) : PlaceById(caller.episode);
}

absl::StatusOr<std::string> Placement::PlaceById(const std::string& episode_id) {
  if (!open_.EnterPlacingIfUnknown(episode_id)) return std::string();
  absl::StatusOr<std::string> place = FindPlace(episode_id);
  open_.LeavePlacing(episode_id);
  return place;
}

absl::StatusOr<std::string> Placement::FindPlace(const std::string& episode_id) {
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

bool Placement::AnswersFor(const std::string& role, const std::string& episode_id) {
  const auto present = core_.parts.peers->Present();
  if (present.ok() && std::find(present->begin(), present->end(), role) == present->end()) return false;
  v1::ServesRequest question;
  question.set_episode_id(episode_id);
  const auto answer = Ask(role, question);
  return answer.ok() && !answer->episode_id().empty();
}

absl::StatusOr<v1::ServesResponse> Placement::Ask(const std::string& role, const v1::ServesRequest& question) {
  const base::Clock& clock = *core_.parts.clock;
  {
    base::MutexLock lock(mu_);
    const auto silent = silent_until_.find(role);
    if (silent != silent_until_.end() && clock.Now() < silent->second) {
      return absl::UnavailableError(role + " did not respond a moment ago");
    }
  }
  auto answer = core_.parts.peers->Serves(role, question);
  if (answer.ok()) return answer;
  INGOT_LOG(warn, "{} does not respond; this gateway takes over its episodes as requests for them arrive: {}", role,
            std::string(answer.status().message()));
  base::MutexLock lock(mu_);
  silent_until_[role] = clock.Now() + kSilence;
  return answer;
}

absl::StatusOr<std::string> Placement::PlaceOpening(const std::string& idempotency_key) {
  const std::string key = OwnerKeyOf(idempotency_key);
  if (!MayBeElsewhere({.api_key = key, .episode = {}})) return std::string();
  const KeyPlace place = AskForKey(key);
  // A gateway that does not answer may have opened the episode earlier. Without this check, its next process, or the
  // gateway itself when it resumes, would serve an episode without a runner.
  return place.role.empty() && !place.all_answered ? PlaceByPool(key) : place.role;
}

std::string Placement::AskWhoServes(const std::string& key) {
  return core_.parts.peers == nullptr ? "" : AskForKey(key).role;
}

Placement::KeyPlace Placement::AskForKey(const std::string& key) {
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

// Another gateway answers from memory, so the pool has the final say about the episode in its answer. The answer "none"
// is reliable because an episode that a gateway lost is in the memory of the gateway that took it over.
absl::StatusOr<std::string> Placement::PlaceByKey(const std::string& key) {
  const KeyPlace place = AskForKey(key);
  if (!place.episode_id.empty()) return PlaceById(place.episode_id);
  return place.all_answered ? std::string() : PlaceByPool(key);
}

absl::StatusOr<std::string> Placement::PlaceByPool(const std::string& key) {
  const KeyHashes hashes(key);
  INGOT_ASSIGN_OR_RETURN(const std::string episode_id, key_search_.Find({hashes.as_owner, hashes.as_caller}));
  return episode_id.empty() ? std::string() : PlaceById(episode_id);
}

absl::Status Placement::TakeOver(const v1::Episode& episode) {
  open_.EnterPlacing(episode.episode_id());
  const absl::Status taken = TakeAlone(episode);
  open_.LeavePlacing(episode.episode_id());
  return taken;
}

absl::Status Placement::TakeAlone(const v1::Episode& episode) {
  if (const auto here = open_.Find(episode.episode_id());
      here != nullptr && here->record().gateway_token() > episode.gateway_token()) {
    return absl::OkStatus();
  }
  v1::TakeOverEpisodeRequest take;
  take.set_episode_id(episode.episode_id());
  take.set_gateway(core_.parts.name);
  take.set_gateway_token(episode.gateway_token() + 1);
  INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree tree, core_.parts.pool->TakeOverEpisode(take));
  INGOT_RETURN_IF_ERROR(Continue(std::move(tree)));
  ++core_.counters.episodes_taken;
  return absl::OkStatus();
}

void Placement::RecallEnd(const std::string& episode_id) {
  if (core_.parts.pool == nullptr) return;
  v1::GetEpisodeRequest request;
  request.set_episode_id(episode_id);
  const auto stored = core_.parts.pool->GetEpisode(request);
  if (!stored.ok() || stored->episode().state() == v1::EPISODE_OPEN) return;
  const v1::Episode& episode = stored->episode();
  const std::string detail = WithoutRejection(episode.detail());
  open_.RememberEnd(episode.key_hash(),
                    {episode_id, episode.state(), detail, "", VisibleDetail(episode.cause(), detail)},
                    /*free_key=*/episode.purpose() == v1::PURPOSE_SERVE);
}

absl::Status Placement::Continue(v1::EpisodeTree tree) {
  const std::chrono::nanoseconds age = AgeOf(tree);  // computed before the trunk's calls are added
  INGOT_ASSIGN_OR_RETURN(Episode::EarlierCalls recorded, EarlierCallsOf(*core_.parts.pool, tree));
  INGOT_ASSIGN_OR_RETURN(const int32_t failed, FailedAttemptsBefore(*core_.parts.pool, tree.episode()));
  v1::EpisodeLimits limits = LimitsFor(core_.options, tree.episode().limits());
  limits.set_fork_at(tree.episode().limits().fork_at());
  const bool admitted = tree.episode().purpose() != v1::PURPOSE_SERVE;
  auto episode =
      std::make_shared<Episode>(std::move(*tree.mutable_episode()), limits, admitted, /*session=*/false,
                                std::move(recorded), core_.parts.clock->Now() - age, *core_.parts.clock, failed);
  const auto earlier = open_.Replace(episode);
  if (earlier != nullptr) earlier->MarkTaken();
  return absl::OkStatus();
}

v1::ServesResponse Placement::Serves(const v1::ServesRequest& request) {
  v1::ServesResponse response;
  const auto episode =
      request.episode_id().empty() ? open_.FindByHash(request.key_hash()) : open_.Find(request.episode_id());
  if (episode != nullptr) response.set_episode_id(episode->id());
  return response;
}

}  // namespace ingot::gateway
