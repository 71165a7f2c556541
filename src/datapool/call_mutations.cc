#include "datapool/call_mutations.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_join.h"
#include "base/checksum.h"
#include "datapool/client.h"
#include "datapool/episode_record.h"
#include "datapool/group_segments.h"
#include "datapool/serialize.h"
#include "tree/segment_key.h"

namespace ingot::datapool {
namespace {

// Sums over the segments that a call references.
struct NamedSegments {
  int64_t context_tokens = 0;
  std::vector<int64_t> sampled_tokens;  // per segment
  std::vector<std::string> missing;     // in hexadecimal
};

// Returns the info for a segment that the call references. Adds the segment to the group if it is new and in the
// request. Returns NOT_FOUND without a message if neither the group nor the request has it.
absl::StatusOr<SegmentInfo> FindOrAdd(GroupSegments& segments, const PreparedCall& prepared, const std::string& key) {
  const auto sent = prepared.segments.find(key);
  absl::StatusOr<SegmentInfo> stored = segments.Find(key);
  if (sent == prepared.segments.end()) return stored;
  if (stored.ok()) {
    INGOT_RETURN_IF_ERROR(segments.CheckContent(key, sent->second.bytes));
  } else if (absl::IsNotFound(stored.status())) {
    segments.Add(key, sent->second.info, sent->second.bytes);
    return sent->second.info;
  }
  return stored;
}

absl::Status AddNamed(GroupSegments& segments, const PreparedCall& prepared, NamedSegments& named) {
  for (const std::string& key : prepared.call->context_keys()) {
    const absl::StatusOr<SegmentInfo> info = FindOrAdd(segments, prepared, key);
    if (info.ok()) {
      named.context_tokens += info->tokens;
    } else if (absl::IsNotFound(info.status())) {
      named.missing.push_back(base::Hex(key));
    } else {
      return info.status();
    }
  }
  for (const std::string& key : prepared.call->sampled_keys()) {
    const absl::StatusOr<SegmentInfo> info = FindOrAdd(segments, prepared, key);
    if (absl::IsNotFound(info.status())) {
      named.missing.push_back(base::Hex(key));
      continue;
    }
    INGOT_RETURN_IF_ERROR(info.status());
    if (!info->sampled) {
      return absl::InvalidArgumentError("sampled_keys names " + base::Hex(key) + ", which is a prompt segment");
    }
    named.sampled_tokens.push_back(info->tokens);
  }
  return absl::OkStatus();
}

// Returns NOT_FOUND without a message if the episode has no such call.
absl::StatusOr<CallSummary> LoadSummary(Database::Batch& batch, const GroupSegments& segments,
                                        const std::string& episode_id, const std::string& call_id) {
  const absl::StatusOr<std::string> key = batch.Get(kCallIds, call_id);
  if (!key.ok() && !absl::IsNotFound(key.status())) return key.status();
  if (!key.ok() || !std::string_view(*key).starts_with(EpisodePrefix(episode_id))) return absl::NotFoundError("");
  INGOT_ASSIGN_OR_RETURN(const std::string stored, batch.Get(kCalls, *key));
  INGOT_ASSIGN_OR_RETURN(const v1::Call call, ParseRecord<v1::Call>(stored, "call '" + call_id + "'"));
  CallSummary summary{.episode_id = episode_id, .context_tokens = call.context_tokens(), .sampled_tokens = {}};
  for (const std::string& sampled : call.sampled_keys()) {
    INGOT_ASSIGN_OR_RETURN(const SegmentInfo info, segments.Get(sampled));
    summary.sampled_tokens.push_back(info.tokens);
  }
  return summary;
}

// Checks the parent call and counts the tokens that the prompt continues from it.
absl::Status AddContinued(Database::Batch& batch, const GroupSegments& segments, const v1::Call& call,
                          const RecentCalls& recent, NamedSegments& named) {
  const std::string& parent = call.parent_call_id();
  absl::StatusOr<CallSummary> summary = absl::NotFoundError("");
  // A paused call's record may have replaced its newer one in the cache.
  if (auto known = recent.Find(parent); known && call.continued_segments() <= std::ssize(known->sampled_tokens)) {
    if (known->episode_id == call.episode_id()) summary = *std::move(known);
  } else {
    summary = LoadSummary(batch, segments, call.episode_id(), parent);
  }
  if (absl::IsNotFound(summary.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("call '", call.call_id(), "' continues call '", parent, "', which is not in its episode"));
  }
  INGOT_RETURN_IF_ERROR(summary.status());
  if (call.continued_segments() > static_cast<int64_t>(summary->sampled_tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat("continued_segments is ", call.continued_segments(), ": call '",
                                                   parent, "' sampled ", summary->sampled_tokens.size()));
  }
  const auto begin = summary->sampled_tokens.begin();
  named.context_tokens = std::accumulate(begin, begin + call.continued_segments(), summary->context_tokens);
  return absl::OkStatus();
}

absl::Status MissingSegments(const v1::Call& call, const std::vector<std::string>& missing) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("call '", call.call_id(), "' refers to segment ", missing[0],
                   missing.size() > 1 ? absl::StrCat(" and ", missing.size() - 1, " more") : "",
                   " that its group does not have: resend the call with ", missing.size() > 1 ? "them" : "it"));
  status.SetPayload(kMissingSegments, absl::Cord(absl::StrJoin(missing, ",")));
  return status;
}

// Returns true if `later` is a record of the same call with at least the sampled segments of `earlier`, which was stored
// when the call was paused.
bool Continues(const v1::Call& later, const v1::Call& earlier) {
  const auto& before = earlier.sampled_keys();
  const auto& after = later.sampled_keys();
  return earlier.finish() == v1::FINISH_PAUSED && later.episode_id() == earlier.episode_id() &&
         later.sequence() == earlier.sequence() && later.context_tokens() == earlier.context_tokens() &&
         before.size() <= after.size() && std::equal(before.begin(), before.end(), after.begin());
}

// Checks that the episode is open, and, for a new call, that its sequence number is free.
absl::Status CheckPlace(Database::Batch& batch, const v1::Episode& episode, int32_t sequence, bool is_new) {
  if (episode.state() != v1::EPISODE_OPEN) {
    return absl::FailedPreconditionError(absl::StrCat(Describe(episode), " accepts no more calls: it is ",
                                                      v1::EpisodeState_Name(episode.state()), " ", episode.detail()));
  }
  if (!is_new) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const bool taken, batch.Has(kCalls, CallKey(episode.episode_id(), sequence)));
  if (!taken) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(Describe(episode), " already has another call with sequence ", sequence));
}

}  // namespace

absl::StatusOr<PreparedCall> PrepareCall(const v1::AppendCallRequest& request) {
  PreparedCall prepared;
  prepared.call = &request.call();
  prepared.gateway_token = request.gateway_token();
  prepared.bytes = DeterministicBytes(request.call());
  std::set<std::string> named(request.call().context_keys().begin(), request.call().context_keys().end());
  named.insert(request.call().sampled_keys().begin(), request.call().sampled_keys().end());
  for (int i = 0; i < request.segments_size(); ++i) {
    const v1::Segment& segment = request.segments(i);
    const std::string key = tree::SegmentKey(segment);
    if (!named.contains(key)) {
      return absl::InvalidArgumentError(absl::StrCat("segments[", i, "] (", base::Hex(key),
                                                     ") is not referenced by call '", request.call().call_id(), "'"));
    }
    prepared.segments[key] = {{segment.token_ids_size(), segment.source() == v1::SOURCE_SAMPLED},
                              DeterministicBytes(segment)};
  }
  return prepared;
}

absl::Status StageAppendCall(Database::Batch& batch, v1::PoolStatusResponse& counters, const PreparedCall& prepared,
                             const RecentCalls& recent, CallSummary& summary) {
  const v1::Call& call = *prepared.call;
  const absl::StatusOr<std::string> stored_key = batch.Get(kCallIds, call.call_id());
  if (!stored_key.ok() && !absl::IsNotFound(stored_key.status())) return stored_key.status();
  std::optional<v1::Call> replaced;  // the record of the call's earlier slices
  if (stored_key.ok()) {
    INGOT_ASSIGN_OR_RETURN(const std::string stored, batch.Get(kCalls, *stored_key));
    if (stored == prepared.bytes) return absl::OkStatus();
    INGOT_ASSIGN_OR_RETURN(replaced, ParseRecord<v1::Call>(stored, "call '" + call.call_id() + "'"));
    if (Continues(*replaced, call)) return absl::OkStatus();  // an earlier slice that arrived late
    if (!Continues(call, *replaced)) {
      return absl::AlreadyExistsError("call '" + call.call_id() + "' is already in the pool with different content");
    }
  }

  INGOT_ASSIGN_OR_RETURN(const v1::Episode episode, LoadProgress(batch, call.episode_id()));
  INGOT_RETURN_IF_ERROR(CheckGateway(episode, prepared.gateway_token));
  INGOT_RETURN_IF_ERROR(CheckPlace(batch, episode, call.sequence(), !replaced.has_value()));
  GroupSegments segments(batch, counters, SegmentPrefix(episode));
  NamedSegments named;
  if (call.has_continued_segments()) INGOT_RETURN_IF_ERROR(AddContinued(batch, segments, call, recent, named));
  INGOT_RETURN_IF_ERROR(AddNamed(segments, prepared, named));
  if (!named.missing.empty()) return MissingSegments(call, named.missing);
  if (call.context_tokens() != named.context_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("context_tokens is ", call.context_tokens(),
                                                   ", and the prompt of call '", call.call_id(), "' has ",
                                                   named.context_tokens));
  }
  const std::string call_key = CallKey(call.episode_id(), call.sequence());
  batch.Put(kCalls, call_key, prepared.bytes);
  batch.Put(kCallIds, call.call_id(), call_key);
  int64_t counted = 0;
  if (replaced.has_value()) {
    INGOT_ASSIGN_OR_RETURN(counted, segments.TokensOf(*replaced));
  } else {
    counters.set_calls(counters.calls() + 1);
  }
  const auto& sampled = named.sampled_tokens;
  counters.set_recorded_tokens(
      std::accumulate(sampled.begin(), sampled.end(), counters.recorded_tokens() + named.context_tokens - counted));
  summary = {call.episode_id(), named.context_tokens, std::move(named.sampled_tokens)};
  return absl::OkStatus();
}

}  // namespace ingot::datapool
