#include "datapool/mutations.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_join.h"
#include "base/checksum.h"
#include "datapool/episode_record.h"
#include "tree/segment_key.h"

namespace ingot::datapool {
namespace {

// The episode as it was opened: what a repeated OpenEpisode has to equal, whenever it is said to have been.
std::string Opening(v1::Episode episode) {
  ClearProgress(episode);
  episode.clear_opened_unix_ns();
  return Canonical(episode);
}

// What EndEpisode sets, but for the time.
std::string Ending(const v1::Episode& episode) {
  v1::Episode ending;
  ending.set_state(episode.state());
  ending.set_reward(episode.reward());
  *ending.mutable_signals() = episode.signals();
  *ending.mutable_call_rewards() = episode.call_rewards();
  ending.set_detail(episode.detail());
  return Canonical(ending);
}

// Rewards name calls of their episode: NOT_FOUND names the first that does not.
template <typename CallRewards>
absl::Status CheckRewardedCalls(Database::Batch& batch, const std::string& episode_id, const CallRewards& rewards) {
  const std::string prefix = EpisodePrefix(episode_id);
  for (const auto& [call_id, reward] : rewards) {
    const absl::StatusOr<std::string> key = batch.Get(kCallIds, call_id);
    if (!key.ok() && !absl::IsNotFound(key.status())) return key.status();
    if (!key.ok() || !std::string_view(*key).starts_with(prefix)) {
      return absl::NotFoundError(
          absl::StrCat("episode '", episode_id, "' holds no call '", call_id, "' that could earn a reward"));
    }
  }
  return absl::OkStatus();
}

void PutProgress(Database::Batch& batch, const v1::Episode& progress) {
  batch.Put(kEpisodes, ProgressKey(progress.episode_id()), progress.SerializeAsString());
}

std::string Describe(const v1::Episode& episode) {
  return absl::StrCat("episode '", episode.episode_id(), "' (group ", episode.ref().group_id(), ", sample ",
                      episode.ref().sample_index(), ", attempt ", episode.ref().attempt(), ")");
}

// Fences older attempts of the episode's sample; refuses if there is a newer one.
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

// What a call's record comes to.
struct NamedSegments {
  int64_t context_tokens = 0;
  std::vector<int64_t> sampled_tokens;  // of each segment
  std::vector<std::string> missing;
};

// The episode uses the segment from now on, as one of so many.
void PutUse(Database::Batch& batch, const std::string& key, const std::string& use_key, uint64_t episodes,
            const SegmentInfo& info) {
  batch.Put(kRefs, key, BigEndian(episodes, 8) + info.Encode());
  batch.Put(kUses, use_key, info.Encode());
}

// Of a segment that is stored: counts the use, if the episode had none of it yet.
absl::StatusOr<SegmentInfo> UseStored(Database::Batch& batch, const PreparedCall& prepared, const std::string& key,
                                      const std::string& use_key, std::string_view refs) {
  const absl::StatusOr<std::string> use = batch.Get(kUses, use_key);
  if (use.ok()) return SegmentInfo::Decode(*use);
  if (!absl::IsNotFound(use.status())) return use.status();
  if (const auto sent = prepared.segments.find(key); sent != prepared.segments.end()) {
    // Content keys are not cryptographic, and part of what they are over comes from outside.
    INGOT_ASSIGN_OR_RETURN(const std::string stored, batch.Get(kSegments, key));
    if (stored != sent->second.bytes) {
      return absl::AlreadyExistsError("segment " + base::Hex(key) + " is stored with other content");
    }
  }
  const SegmentInfo info = SegmentInfo::Decode(refs.substr(8));
  PutUse(batch, key, use_key, FromBigEndian(refs.substr(0, 8)) + 1, info);
  return info;
}

// Looks at one named key; the first time that this episode uses it, counts the use and stores the segment if it is new.
// Most are new: what no episode uses, which one lookup tells, this one does not use either.
absl::Status UseSegment(Database::Batch& batch, v1::PoolStatusResponse& counters, const PreparedCall& prepared,
                        const std::string& key, bool must_be_sampled, NamedSegments& named) {
  const std::string use_key = EpisodePrefix(prepared.call->episode_id()) + key;
  SegmentInfo info;
  const absl::StatusOr<std::string> refs = batch.Get(kRefs, key);
  if (refs.ok()) {
    INGOT_ASSIGN_OR_RETURN(info, UseStored(batch, prepared, key, use_key, *refs));
  } else if (!absl::IsNotFound(refs.status())) {
    return refs.status();
  } else if (const auto sent = prepared.segments.find(key); sent != prepared.segments.end()) {
    info = sent->second.info;
    batch.Put(kSegments, key, sent->second.bytes);
    PutUse(batch, key, use_key, 1, info);
    counters.set_segments(counters.segments() + 1);
    counters.set_segment_tokens(counters.segment_tokens() + info.tokens);
  } else {
    named.missing.push_back(base::Hex(key));
    return absl::OkStatus();
  }
  if (must_be_sampled && !info.sampled) {
    return absl::InvalidArgumentError("sampled_keys names " + base::Hex(key) + ", which is a prompt segment");
  }
  if (must_be_sampled) {
    named.sampled_tokens.push_back(info.tokens);
  } else {
    named.context_tokens += info.tokens;
  }
  return absl::OkStatus();
}

// A stored call of that episode.
absl::StatusOr<CallTail> LoadTail(Database::Batch& batch, const std::string& episode_id, const std::string& call_id) {
  CallTail tail;
  tail.episode_id = episode_id;
  const absl::StatusOr<std::string> key = batch.Get(kCallIds, call_id);
  if (!key.ok() && !absl::IsNotFound(key.status())) return key.status();
  if (!key.ok() || !std::string_view(*key).starts_with(EpisodePrefix(episode_id))) return absl::NotFoundError("");
  INGOT_ASSIGN_OR_RETURN(const std::string stored, batch.Get(kCalls, *key));
  INGOT_ASSIGN_OR_RETURN(const v1::Call call, ParseRecord<v1::Call>(stored, "call '" + call_id + "'"));
  const auto tokens_of = [&](const std::string& named) -> absl::StatusOr<int64_t> {
    INGOT_ASSIGN_OR_RETURN(const std::string use, batch.Get(kUses, EpisodePrefix(episode_id) + named));
    return SegmentInfo::Decode(use).tokens;
  };
  tail.context_tokens = call.context_tokens();
  for (const std::string& named : call.sampled_keys()) {
    INGOT_ASSIGN_OR_RETURN(const int64_t tokens, tokens_of(named));
    tail.sampled_tokens.push_back(tokens);
  }
  return tail;
}

// Looks at the call that `call` continues, and counts what it takes over from there.
absl::Status ContinueCall(Database::Batch& batch, const v1::Call& call, const RecentCalls& recent,
                          NamedSegments& named) {
  const std::string& parent = call.parent_call_id();
  absl::StatusOr<CallTail> tail = absl::NotFoundError("");
  if (auto known = recent.Find(parent)) {
    if (known->episode_id == call.episode_id()) tail = *std::move(known);
  } else {
    tail = LoadTail(batch, call.episode_id(), parent);
  }
  if (absl::IsNotFound(tail.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("call '", call.call_id(), "' continues call '", parent, "', which its episode does not hold"));
  }
  INGOT_RETURN_IF_ERROR(tail.status());
  if (call.continued_segments() > static_cast<int64_t>(tail->sampled_tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat("continued_segments is ", call.continued_segments(), ": call '",
                                                   parent, "' sampled ", tail->sampled_tokens.size()));
  }
  const auto begin = tail->sampled_tokens.begin();
  named.context_tokens = std::accumulate(begin, begin + call.continued_segments(), tail->context_tokens);
  return absl::OkStatus();
}

absl::Status MissingSegments(const v1::Call& call, const std::vector<std::string>& missing) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("call '", call.call_id(), "' names segment ", missing[0],
                   missing.size() > 1 ? absl::StrCat(" and ", missing.size() - 1, " more") : "",
                   " that the pool does not hold: send the call again with ", missing.size() > 1 ? "them" : "it"));
  status.SetPayload(kMissingSegments, absl::Cord(absl::StrJoin(missing, ",")));
  return status;
}

}  // namespace

std::string Canonical(const google::protobuf::MessageLite& message) {
  std::string bytes(message.ByteSizeLong(), '\0');
  google::protobuf::io::ArrayOutputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeWithCachedSizes(&coded);
  coded.Trim();
  return bytes;
}

absl::Status StageOpenEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                              const v1::OpenEpisodeRequest& request, int64_t unix_ns) {
  v1::Episode episode = request.episode();
  const absl::StatusOr<v1::Episode> stored = LoadOpening(batch, episode.episode_id());
  if (stored.ok()) {
    if (Opening(*stored) == Opening(episode)) return absl::OkStatus();
    return absl::AlreadyExistsError(Describe(*stored) + " is in the pool with other content");
  }
  if (!absl::IsNotFound(stored.status())) return stored.status();
  // Serving has no groups: its episodes are told apart by their ids alone.
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

absl::Status StageRewardEpisode(Database::Batch& batch, const v1::RewardEpisodeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const v1::Episode stored, LoadProgress(batch, request.episode_id()));
  v1::Episode rewarded = stored;
  if (request.has_reward()) rewarded.set_reward(request.reward());
  for (const auto& [name, value] : request.signals()) (*rewarded.mutable_signals())[name] = value;
  for (const auto& [call, earned] : request.call_rewards()) (*rewarded.mutable_call_rewards())[call] = earned;
  if (Canonical(rewarded) == Canonical(stored)) return absl::OkStatus();  // it was told before
  if (stored.state() != v1::EPISODE_OPEN) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(stored), " earns nothing more, it is ",
                                                      v1::EpisodeState_Name(stored.state()), " ", stored.detail()));
  }
  INGOT_RETURN_IF_ERROR(CheckRewardedCalls(batch, request.episode_id(), request.call_rewards()));
  PutProgress(batch, rewarded);
  return absl::OkStatus();
}

absl::Status StageEndEpisode(Database::Batch& batch, const v1::EndEpisodeRequest& request) {
  INGOT_ASSIGN_OR_RETURN(const v1::Episode stored, LoadProgress(batch, request.episode_id()));
  v1::Episode ended = stored;
  ended.set_state(request.state());
  ended.set_reward(request.reward());
  *ended.mutable_signals() = request.signals();
  *ended.mutable_call_rewards() = request.call_rewards();
  ended.set_detail(request.detail());
  ended.set_ended_unix_ns(request.ended_unix_ns());
  if (stored.state() == v1::EPISODE_OPEN) {
    INGOT_RETURN_IF_ERROR(CheckRewardedCalls(batch, request.episode_id(), request.call_rewards()));
    PutProgress(batch, ended);
    return absl::OkStatus();
  }
  if (Ending(stored) == Ending(ended)) return absl::OkStatus();
  if (stored.state() == v1::EPISODE_FENCED) {
    if (request.state() == v1::EPISODE_FENCED) return absl::OkStatus();
    return absl::FailedPreconditionError(Describe(stored) + " is fenced: " + stored.detail());
  }
  return absl::AlreadyExistsError(
      absl::StrCat(Describe(stored), " has ended as ", v1::EpisodeState_Name(stored.state()), " with other content"));
}

absl::StatusOr<PreparedCall> PrepareCall(const v1::AppendCallRequest& request) {
  PreparedCall prepared;
  prepared.call = &request.call();
  prepared.bytes = Canonical(request.call());
  std::set<std::string> named(request.call().context_keys().begin(), request.call().context_keys().end());
  named.insert(request.call().sampled_keys().begin(), request.call().sampled_keys().end());
  for (int i = 0; i < request.segments_size(); ++i) {
    const v1::Segment& segment = request.segments(i);
    const std::string key = tree::SegmentKey(segment);
    if (!named.contains(key)) {
      return absl::InvalidArgumentError(absl::StrCat("segments[", i, "] (", base::Hex(key), ") is not named by call '",
                                                     request.call().call_id(), "'"));
    }
    prepared.segments[key] = {{segment.token_ids_size(), segment.source() == v1::SOURCE_SAMPLED}, Canonical(segment)};
  }
  return prepared;
}

absl::Status StageAppendCall(Database::Batch& batch, v1::PoolStatusResponse& counters, const PreparedCall& prepared,
                             const RecentCalls& recent, CallTail& tail) {
  const v1::Call& call = *prepared.call;
  const std::string call_key = CallKey(call.episode_id(), call.sequence());
  const absl::StatusOr<std::string> stored_key = batch.Get(kCallIds, call.call_id());
  if (stored_key.ok()) {
    INGOT_ASSIGN_OR_RETURN(const std::string stored, batch.Get(kCalls, *stored_key));
    if (stored == prepared.bytes) return absl::OkStatus();
    return absl::AlreadyExistsError("call '" + call.call_id() + "' is in the pool with other content");
  }
  if (!absl::IsNotFound(stored_key.status())) return stored_key.status();

  INGOT_ASSIGN_OR_RETURN(const v1::Episode episode, LoadProgress(batch, call.episode_id()));
  if (episode.state() != v1::EPISODE_OPEN) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(episode), " takes no more calls, it is ",
                                                      v1::EpisodeState_Name(episode.state()), " ", episode.detail()));
  }
  INGOT_ASSIGN_OR_RETURN(const bool taken, batch.Has(kCalls, call_key));
  if (taken) {
    return absl::AlreadyExistsError(
        absl::StrCat(Describe(episode), " has another call with sequence ", call.sequence()));
  }
  NamedSegments named;
  if (call.has_continued_segments()) INGOT_RETURN_IF_ERROR(ContinueCall(batch, call, recent, named));
  for (const std::string& key : call.context_keys()) {
    INGOT_RETURN_IF_ERROR(UseSegment(batch, counters, prepared, key, false, named));
  }
  for (const std::string& key : call.sampled_keys()) {
    INGOT_RETURN_IF_ERROR(UseSegment(batch, counters, prepared, key, true, named));
  }
  if (!named.missing.empty()) return MissingSegments(call, named.missing);
  if (call.context_tokens() != named.context_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("context_tokens is ", call.context_tokens(),
                                                   ", and the prompt of call '", call.call_id(), "' has ",
                                                   named.context_tokens));
  }
  batch.Put(kCalls, call_key, prepared.bytes);
  batch.Put(kCallIds, call.call_id(), call_key);
  counters.set_calls(counters.calls() + 1);
  const auto& sampled = named.sampled_tokens;
  counters.set_recorded_tokens(
      std::accumulate(sampled.begin(), sampled.end(), counters.recorded_tokens() + named.context_tokens));
  tail = {call.episode_id(), named.context_tokens, std::move(named.sampled_tokens)};
  return absl::OkStatus();
}

absl::Status StageAppendJournal(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const v1::AppendJournalRequest& request, int64_t unix_ns, int64_t& first_index) {
  v1::AppendJournalRequest bare = request;
  bare.clear_expected_index();
  for (v1::JournalRecord& record : *bare.mutable_records()) {
    record.clear_index();
    record.clear_unix_ns();
  }
  const std::string request_key = base::ContentKey(Canonical(bare));
  const absl::StatusOr<std::string> earlier = batch.Get(kAppends, request_key);
  if (earlier.ok()) {
    first_index = static_cast<int64_t>(FromBigEndian(*earlier));
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(earlier.status())) return earlier.status();
  if (request.has_expected_index() && request.expected_index() != counters.journal_end()) {
    return absl::AbortedError(absl::StrCat("the journal ends at ", counters.journal_end(),
                                           ", and this append was to stand at ", request.expected_index()));
  }
  first_index = counters.journal_end();
  int64_t index = first_index;
  for (v1::JournalRecord& record : *bare.mutable_records()) {
    record.set_index(index);
    record.set_unix_ns(unix_ns);
    batch.Put(kJournal, BigEndian(index++, 8), record.SerializeAsString());
  }
  batch.Put(kAppends, request_key, BigEndian(first_index, 8));
  counters.set_journal_end(index);
  return absl::OkStatus();
}

absl::Status StageDeleteEpisode(Database::Batch& batch, v1::PoolStatusResponse& counters,
                                const std::string& order_key) {
  INGOT_ASSIGN_OR_RETURN(const bool there, batch.Has(kOrder, order_key));
  if (!there) return absl::OkStatus();
  const std::string episode_id = order_key.substr(kOrderFixedBytes);
  const std::string prefix = EpisodePrefix(episode_id);
  std::map<std::string, SegmentInfo> used;
  INGOT_RETURN_IF_ERROR(batch.Scan(kUses, prefix, [&](std::string_view key, std::string_view value) {
    used[std::string(key.substr(prefix.size()))] = SegmentInfo::Decode(value);
    return true;
  }));
  std::vector<std::pair<std::string, std::string>> calls;
  INGOT_RETURN_IF_ERROR(batch.Scan(kCalls, prefix, [&](std::string_view key, std::string_view value) {
    calls.emplace_back(key, value);
    return true;
  }));
  for (const auto& [key, bytes] : calls) {
    INGOT_ASSIGN_OR_RETURN(const v1::Call call, ParseRecord<v1::Call>(bytes, "a call of episode '" + episode_id + "'"));
    int64_t tokens = call.context_tokens();
    for (const std::string& named : call.sampled_keys()) tokens += used[named].tokens;
    batch.Delete(kCalls, key);
    batch.Delete(kCallIds, call.call_id());
    counters.set_calls(counters.calls() - 1);
    counters.set_recorded_tokens(counters.recorded_tokens() - tokens);
  }
  for (const auto& [key, info] : used) {
    batch.Delete(kUses, prefix + key);
    INGOT_ASSIGN_OR_RETURN(const std::string refs, batch.Get(kRefs, key));
    const uint64_t episodes = FromBigEndian(std::string_view(refs).substr(0, 8));
    if (episodes > 1) {
      batch.Put(kRefs, key, BigEndian(episodes - 1, 8) + info.Encode());
      continue;
    }
    batch.Delete(kRefs, key);
    batch.Delete(kSegments, key);
    counters.set_segments(counters.segments() - 1);
    counters.set_segment_tokens(counters.segment_tokens() - info.tokens);
  }
  batch.Delete(kEpisodes, episode_id);
  batch.Delete(kEpisodes, ProgressKey(episode_id));
  batch.Delete(kOrder, order_key);
  counters.set_episodes(counters.episodes() - 1);
  return absl::OkStatus();
}

}  // namespace ingot::datapool
