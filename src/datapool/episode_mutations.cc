#include "datapool/episode_mutations.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datapool/episode_record.h"
#include "datapool/group_segments.h"
#include "datapool/serialize.h"
#include "datapool/validate.h"
#include "tree/signal_bounds.h"

namespace ingot::datapool {
namespace {

// Returns the part of an opening that must be equal in a repeated StoreEpisode: everything except the time.
std::string Opening(v1::Episode episode) {
  ClearProgress(episode);
  episode.clear_opened_unix_ns();
  return DeterministicBytes(episode);
}

// Returns the part of an end that must be equal in a repeated StoreEnd: everything except the time.
std::string Ending(const v1::Episode& episode) {
  v1::Episode ending;
  ending.set_state(episode.state());
  if (episode.has_reward()) ending.set_reward(episode.reward());
  *ending.mutable_signals() = episode.signals();
  *ending.mutable_facts() = episode.facts();
  *ending.mutable_call_rewards() = episode.call_rewards();
  ending.set_detail(episode.detail());
  ending.set_cause(episode.cause());
  return DeterministicBytes(ending);
}

// Returns NOT_FOUND with the first call that the episode does not have.
template <typename CallRewards>
absl::Status CheckRewardedCalls(Database::Batch& batch, const std::string& episode_id, const CallRewards& rewards) {
  const std::string prefix = EpisodePrefix(episode_id);
  for (const auto& [call_id, reward] : rewards) {
    const absl::StatusOr<std::string> key = batch.Get(kCallIds, call_id);
    if (!key.ok() && !absl::IsNotFound(key.status())) return key.status();
    if (!key.ok() || !std::string_view(*key).starts_with(prefix)) {
      return absl::NotFoundError(
          absl::StrCat("episode '", episode_id, "' has no call '", call_id, "' that can be rewarded"));
    }
  }
  return absl::OkStatus();
}

// Adds rewards to the episode. A later value for a name replaces an earlier one. `earned` is a request with rewards.
template <typename Earned>
void AddRewards(v1::Episode& episode, const Earned& earned) {
  if (earned.has_reward()) episode.set_reward(earned.reward());
  for (const auto& [name, value] : earned.signals()) (*episode.mutable_signals())[name] = value;
  for (const auto& [name, json] : earned.facts()) (*episode.mutable_facts())[name] = json;
  for (const auto& [call, reward] : earned.call_rewards()) (*episode.mutable_call_rewards())[call] = reward;
}

// Returns INVALID_ARGUMENT if the request would give the episode too many signals or facts to store its end.
absl::Status CheckRoom(const v1::Episode& stored, const v1::Episode& rewarded, const v1::StoreRewardRequest& request) {
  if (rewarded.signals().size() > tree::kMaxSignals && rewarded.signals().size() > stored.signals().size()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(stored), " would have ", rewarded.signals().size(),
                                                   " signals; at most ", tree::kMaxSignals));
  }
  if (request.facts().empty()) return absl::OkStatus();
  return base::Annotate(ValidateFactBounds(rewarded.facts()), Describe(stored) + " with these facts");
}

// Returns the error for an abandoned request that arrives after later requests.
absl::Status LateReward(const v1::Episode& stored, int64_t number) {
  return absl::FailedPreconditionError(absl::StrCat(Describe(stored), " keeps its rewards: request ", number,
                                                    " was late, because number ", stored.reward_number(),
                                                    " is already stored; post the reward again"));
}

bool HasOutcome(const v1::Episode& episode) { return episode.has_reward() || !episode.call_rewards().empty(); }

// Adds a default outcome. It does not replace posted signals or facts. Entries that do not fit in addition to the
// posted ones are omitted, because the end must succeed.
void AddDefault(v1::Episode& episode, const v1::DefaultOutcome& outcome) {
  episode.set_reward(outcome.reward());
  episode.set_detail(outcome.detail());
  // In name order, so that the same entries are omitted each time.
  const std::map<std::string, double> signals(outcome.signals().begin(), outcome.signals().end());
  const std::map<std::string, std::string> facts(outcome.facts().begin(), outcome.facts().end());
  for (const auto& [name, value] : signals) {
    const bool fits = !episode.signals().contains(name) && episode.signals().size() < tree::kMaxSignals;
    if (fits) (*episode.mutable_signals())[name] = value;
  }
  for (const auto& [name, json] : facts) {
    const bool fits = !episode.facts().contains(name) && tree::HasRoomForFact(episode.facts(), name, json);
    if (fits) (*episode.mutable_facts())[name] = json;
  }
}

// Returns the episode with the request's end applied. `by_default` = it had no reward before.
v1::Episode Ended(v1::Episode episode, const v1::StoreEndRequest& request, bool by_default) {
  episode.set_state(request.state());
  if (request.has_reward()) {  // the complete outcome
    episode.clear_signals();
    episode.clear_facts();
    episode.clear_call_rewards();
  }
  AddRewards(episode, request);
  episode.set_detail(request.detail());
  episode.set_cause(request.cause());
  episode.set_ended_unix_ns(request.ended_unix_ns());
  if (!request.has_unless_rewarded()) return episode;
  if (!by_default) {
    episode.set_reward(episode.reward());  // its own reward is 0 if only calls were rewarded
    return episode;
  }
  AddDefault(episode, request.unless_rewarded());
  return episode;
}

void PutProgress(Database::Batch& batch, const v1::Episode& progress) {
  batch.Put(kEpisodes, ProgressKey(progress.episode_id()), progress.SerializeAsString());
}

// Fences older attempts of the episode's sample. Returns FAILED_PRECONDITION if the sample has a newer attempt.
absl::Status FenceOlderAttempts(Database::Batch& batch, const v1::Episode& episode, int64_t unix_ns) {
  const std::string prefix = SamplePrefix(episode.purpose(), episode.ref());
  std::vector<std::pair<int64_t, std::string>> attempts;
  INGOT_RETURN_IF_ERROR(batch.Scan(kOrder, prefix, [&](std::string_view key, std::string_view) {
    attempts.emplace_back(FromBigEndian(key.substr(kSamplePrefixBytes, 4)), key.substr(kOrderFixedBytes));
    return true;
  }));
  for (const auto& [attempt, episode_id] : attempts) {
    if (attempt == episode.ref().attempt()) {
      return absl::AlreadyExistsError(absl::StrCat(Describe(episode), ": this attempt is episode '", episode_id, "'"));
    }
    if (attempt > episode.ref().attempt()) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(episode), " is fenced: attempt ", attempt, " was opened before it"));
    }
  }
  for (const auto& [attempt, episode_id] : attempts) {
    INGOT_ASSIGN_OR_RETURN(v1::Episode older, LoadProgress(batch, episode_id));
    if (older.state() != v1::EPISODE_OPEN) continue;
    older.set_state(v1::EPISODE_FENCED);
    older.set_detail(absl::StrCat("superseded by attempt ", episode.ref().attempt()));
    older.set_ended_unix_ns(unix_ns);
    PutProgress(batch, older);
  }
  return absl::OkStatus();
}

absl::Status DeleteCalls(Database::Batch& batch, v1::PoolStatusResponse& counters, const GroupSegments& segments,
                         const std::string& episode_id) {
  std::vector<std::pair<std::string, std::string>> calls;
  INGOT_RETURN_IF_ERROR(
      batch.Scan(kCalls, EpisodePrefix(episode_id), [&](std::string_view key, std::string_view value) {
        calls.emplace_back(key, value);
        return true;
      }));
  for (const auto& [key, bytes] : calls) {
    INGOT_ASSIGN_OR_RETURN(const v1::Call call, ParseRecord<v1::Call>(bytes, "a call of episode '" + episode_id + "'"));
    INGOT_ASSIGN_OR_RETURN(const int64_t tokens, segments.TokensOf(call));
    batch.Delete(kCalls, key);
    batch.Delete(kCallIds, call.call_id());
    counters.set_calls(counters.calls() - 1);
    counters.set_recorded_tokens(counters.recorded_tokens() - tokens);
  }
  return absl::OkStatus();
}

// Returns whether the store has an episode of `episode`'s group. A serving episode is its own group.
absl::StatusOr<bool> HasGroup(Database::Batch& batch, const v1::Episode& episode) {
  if (episode.purpose() == v1::PURPOSE_SERVE) return batch.Has(kEpisodes, episode.episode_id());
  bool found = false;
  INGOT_RETURN_IF_ERROR(batch.Scan(kOrder, GroupPrefix(episode.purpose(), episode.ref().group_id()), [&](auto, auto) {
    found = true;
    return false;
  }));
  return found;
}

}  // namespace

absl::Status StageStoreEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                               const v1::StoreEpisodeRequest& request, int64_t unix_ns) {
  v1::Episode episode = request.episode();
  const absl::StatusOr<v1::Episode> stored = LoadOpening(batch, episode.episode_id());
  if (stored.ok()) {
    if (Opening(*stored) == Opening(episode)) return absl::OkStatus();
    return absl::AlreadyExistsError(Describe(*stored) + " is already in the pool with different content");
  }
  if (!absl::IsNotFound(stored.status())) return stored.status();
  // Serving episodes have no samples, so they never fence each other.
  if (episode.purpose() != v1::PURPOSE_SERVE) {
    INGOT_RETURN_IF_ERROR(FenceOlderAttempts(batch, episode, unix_ns));
  }
  v1::Episode progress = ProgressOf(episode);
  progress.set_state(v1::EPISODE_OPEN);
  PutProgress(batch, progress);
  ClearProgress(episode);
  batch.Put(kEpisodes, episode.episode_id(), episode.SerializeAsString());
  batch.Put(kOrder, OrderKey(episode), "");
  counters.set_episodes(counters.episodes() + 1);
  return absl::OkStatus();
}

absl::Status StageStoreReward(Database::Batch& batch, const v1::StoreRewardRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const v1::Episode stored, LoadProgress(batch, request.episode_id()));
  INGOT_RETURN_IF_ERROR(CheckGateway(stored, request.gateway_token()));
  v1::Episode rewarded = stored;
  AddRewards(rewarded, request);
  const bool changes = DeterministicBytes(rewarded) != DeterministicBytes(stored);
  if (stored.state() != v1::EPISODE_OPEN) {
    if (!changes) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(Describe(stored), " accepts no more rewards: it is ",
                                                      v1::EpisodeState_Name(stored.state()), " ", stored.detail()));
  }
  if (request.number() > 0 && request.number() <= stored.reward_number()) {
    return changes ? LateReward(stored, request.number()) : absl::OkStatus();
  }
  rewarded.set_reward_number(std::max(stored.reward_number(), request.number()));
  if (!changes && rewarded.reward_number() == stored.reward_number()) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(CheckRoom(stored, rewarded, request));
  INGOT_RETURN_IF_ERROR(CheckRewardedCalls(batch, request.episode_id(), request.call_rewards()));
  PutProgress(batch, rewarded);
  return absl::OkStatus();
}

absl::Status StageStoreEnd(Database::Batch& batch, const v1::StoreEndRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const v1::Episode stored, LoadProgress(batch, request.episode_id()));
  INGOT_RETURN_IF_ERROR(CheckGateway(stored, request.gateway_token()));
  if (stored.state() == v1::EPISODE_OPEN) {
    INGOT_RETURN_IF_ERROR(CheckRewardedCalls(batch, request.episode_id(), request.call_rewards()));
    PutProgress(batch, Ended(stored, request, !HasOutcome(stored)));
    return absl::OkStatus();
  }
  // A repeated request cannot determine whether the first one found a reward.
  const bool by_default = request.has_unless_rewarded();
  for (const bool may_be_default : {false, by_default}) {
    if (Ending(stored) == Ending(Ended(stored, request, may_be_default))) return absl::OkStatus();
  }
  if (stored.state() == v1::EPISODE_FENCED) {
    if (request.state() == v1::EPISODE_FENCED) return absl::OkStatus();
    return absl::FailedPreconditionError(Describe(stored) + " is fenced: " + stored.detail());
  }
  return absl::AlreadyExistsError(absl::StrCat(Describe(stored), " has already ended as ",
                                               v1::EpisodeState_Name(stored.state()), " with different content"));
}

absl::Status StageTakeOverEpisode(Database::Batch& batch, const v1::TakeOverEpisodeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(v1::Episode stored, LoadProgress(batch, request.episode_id()));
  if (stored.state() != v1::EPISODE_OPEN) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(stored), " cannot be taken over: it is ",
                                                      v1::EpisodeState_Name(stored.state()), " ", stored.detail()));
  }
  const bool repeated = stored.gateway() == request.gateway() && stored.gateway_token() == request.gateway_token();
  if (repeated) return absl::OkStatus();
  if (request.gateway_token() <= stored.gateway_token()) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(stored), " was taken by ", stored.gateway(),
                                                      " under token ", stored.gateway_token(), "; ", request.gateway(),
                                                      " has token ", request.gateway_token()));
  }
  stored.set_gateway(request.gateway());
  stored.set_gateway_token(request.gateway_token());
  PutProgress(batch, stored);
  return absl::OkStatus();
}

absl::Status StageStoreGrades(Database::Batch& batch, const v1::StoreGradesRequest& request) {
  std::vector<v1::Episode> graded;
  for (const auto& [episode_id, grade] : request.grades()) {
    INGOT_ASSIGN_OR_RETURN(v1::Episode episode, LoadProgress(batch, episode_id));
    if (episode.ref().group_id() != request.group_id() || episode.purpose() != request.purpose()) {
      return absl::FailedPreconditionError(absl::StrCat(Describe(episode), " is not in group ", request.group_id()));
    }
    if (episode.state() != v1::EPISODE_FINISHED) {
      return absl::FailedPreconditionError(
          absl::StrCat(Describe(episode), " cannot be graded: it is ", v1::EpisodeState_Name(episode.state())));
    }
    if (episode.has_grade()) {
      if (DeterministicBytes(episode.grade()) == DeterministicBytes(grade)) continue;
      return absl::AlreadyExistsError(Describe(episode) + " already has a different grade");
    }
    INGOT_RETURN_IF_ERROR(CheckRewardedCalls(batch, episode_id, grade.call_rewards()));
    *episode.mutable_grade() = grade;
    graded.push_back(std::move(episode));
  }
  for (const v1::Episode& episode : graded) PutProgress(batch, episode);
  return absl::OkStatus();
}

absl::Status StageDeleteEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const std::string& order_key) {
  INGOT_ASSIGN_OR_RETURN(const bool there, batch.Has(kOrder, order_key));
  if (!there) return absl::OkStatus();
  const std::string episode_id = order_key.substr(kOrderFixedBytes);
  INGOT_ASSIGN_OR_RETURN(const v1::Episode episode, LoadProgress(batch, episode_id));
  GroupSegments segments(batch, counters, SegmentPrefix(episode));
  INGOT_RETURN_IF_ERROR(DeleteCalls(batch, counters, segments, episode_id));
  batch.Delete(kEpisodes, episode_id);
  batch.Delete(kEpisodes, ProgressKey(episode_id));
  batch.Delete(kOrder, order_key);
  counters.set_episodes(counters.episodes() - 1);
  INGOT_ASSIGN_OR_RETURN(const bool others, HasGroup(batch, episode));
  return others ? absl::OkStatus() : segments.DeleteAll();
}

}  // namespace ingot::datapool
