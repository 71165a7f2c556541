#include "gateway/prompt/generation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tree/alternatives.h"
#include "tree/segment_key.h"

namespace ingot::gateway {

// Checks that all of a call's ids have the same number of route bytes.
bool Generation::RoutesFit(const v1::GenerateChunk& chunk) const {
  const auto ids = static_cast<size_t>(chunk.token_ids_size()), before = static_cast<size_t>(size());
  if (ids == 0) return chunk.routes().empty();
  if (chunk.routes().size() % ids != 0) return false;
  return before == 0 || chunk.routes().size() / ids == segment.routes().size() / before;
}

void Generation::AskAgain(int kept, int64_t now_unix_ns) {
  kept_ = kept;
  lost_ = size();
  grew_ = false;
  asked_unix_ns_ = now_unix_ns;
}

void Generation::KeepFirst(int count) {
  if (count >= size()) return;
  segment = count == 0 ? v1::Segment() : PartOf(segment, 0, count);
  top_logprobs.resize(std::min(top_logprobs.size(), static_cast<size_t>(count)));
  if (count == 0) times.clear_first_token_unix_ns();
}

// Checks that all of a call's ids have the same number of alternatives.
bool Generation::AlternativesFit(const v1::GenerateChunk& chunk) const {
  const int32_t each =
      tree::AlternativesPerId(chunk.token_ids_size(), chunk.alternative_ids_size(), chunk.alternative_logprobs_size());
  return each >= 0 && (size() == 0 || chunk.token_ids().empty() || each == tree::AlternativesPerId(segment));
}

// Checks that versions for the entire answer are given if and only if a chunk was provisional, and that they cover it.
bool Generation::AnswerVersionsFit(const v1::GenerateChunk& chunk) const {
  if (chunk.finish() == v1::FINISH_UNSPECIFIED) return chunk.answer_versions().empty();
  if (chunk.answer_versions().empty()) return !provisional && !chunk.provisional();
  int64_t covered = 0;
  for (const v1::VersionRun& run : chunk.answer_versions()) {
    if (run.count() <= 0) return false;
    covered += run.count();
  }
  return covered == size() + chunk.token_ids_size();
}

absl::Status Generation::Append(const v1::GenerateChunk& chunk, int64_t now_unix_ns) {
  if (!std::exchange(grew_, true)) KeepFirst(kept_);
  if (size() == 0) provisional = false;  // the engine restarted the answer
  const int count = chunk.token_ids_size();
  int64_t covered = 0;
  bool positive = true;
  for (const v1::VersionRun& run : chunk.versions()) {
    positive = positive && run.count() > 0;
    covered += run.count();
  }
  if (chunk.logprobs_size() != count || covered != count || !positive || !RoutesFit(chunk) || !AlternativesFit(chunk) ||
      (chunk.top_logprobs_size() != 0 && chunk.top_logprobs_size() != count)) {
    return absl::InternalError(absl::StrCat("the engine sent ", count, " ids with ", chunk.logprobs_size(),
                                            " log-probs, versions for ", covered, ", routes of ", chunk.routes().size(),
                                            " bytes, and ", chunk.alternative_ids_size(),
                                            " alternatives: the call is neither recorded nor delivered"));
  }
  if (!AnswerVersionsFit(chunk)) {
    return absl::InternalError(absl::StrCat("the engine's last chunk does not have the versions of all ",
                                            size() + count, " ids: the call is neither recorded nor delivered"));
  }
  if (count > 0) {
    segment.set_source(v1::SOURCE_SAMPLED);
    if (times.first_token_unix_ns() == 0) times.set_first_token_unix_ns(now_unix_ns);
    times.set_end_unix_ns(now_unix_ns);
  }
  segment.mutable_token_ids()->MergeFrom(chunk.token_ids());
  segment.mutable_logprobs()->MergeFrom(chunk.logprobs());
  segment.mutable_routes()->append(chunk.routes());
  segment.mutable_alternative_ids()->MergeFrom(chunk.alternative_ids());
  segment.mutable_alternative_logprobs()->MergeFrom(chunk.alternative_logprobs());
  for (const v1::VersionRun& run : chunk.versions()) {
    const int last = segment.versions_size() - 1;
    v1::VersionRun* previous = last < 0 ? nullptr : segment.mutable_versions(last);
    if (previous != nullptr && previous->version() == run.version() && previous->kv_mixed() == run.kv_mixed()) {
      previous->set_count(previous->count() + run.count());
    } else {
      *segment.add_versions() = run;
    }
  }
  top_logprobs.insert(top_logprobs.end(), chunk.top_logprobs().begin(), chunk.top_logprobs().end());
  provisional = provisional || chunk.provisional();
  if (chunk.finish() == v1::FINISH_UNSPECIFIED) return absl::OkStatus();
  if (!chunk.answer_versions().empty()) *segment.mutable_versions() = chunk.answer_versions();
  provisional = false;
  finish = chunk.finish();
  stop_string = chunk.stop_string();
  if (sliced_ == 0) cached_tokens = chunk.cached_tokens();  // later, the prompt may be cached because of this call
  // The engine may be on another machine with another clock. Its times are relative to the call's arrival there.
  const int64_t ahead =
      chunk.times().queued_unix_ns() - (asked_unix_ns_ != 0 ? asked_unix_ns_ : times.queued_unix_ns());
  if (chunk.times().first_token_unix_ns() != 0 && kept_ == 0) {
    times.set_first_token_unix_ns(chunk.times().first_token_unix_ns() - ahead);
  }
  if (chunk.times().end_unix_ns() != 0) times.set_end_unix_ns(chunk.times().end_unix_ns() - ahead);
  return absl::OkStatus();
}

void Generation::EndSlice() {
  sliced_ = size();
  finish = v1::FINISH_UNSPECIFIED;
}

void Generation::StopAfter(int count) {
  KeepFirst(count);
  finish = v1::FINISH_STOP;
  stop_string.clear();
}

SegmentRef MakeSegmentRef(v1::Segment segment) {
  auto shared = std::make_shared<v1::Segment>(std::move(segment));
  return {tree::SegmentKey(*shared), shared};
}

v1::Segment PartOf(const v1::Segment& segment, int first, int count) {
  v1::Segment part;
  part.set_source(segment.source());
  const auto copy = [&](const auto& from, int each, auto* to) {
    to->Add(from.begin() + first * each, from.begin() + (first + count) * each);
  };
  copy(segment.token_ids(), 1, part.mutable_token_ids());
  if (!segment.logprobs().empty()) copy(segment.logprobs(), 1, part.mutable_logprobs());
  const size_t route_bytes = segment.routes().size() / static_cast<size_t>(segment.token_ids_size());  // per id
  part.set_routes(
      segment.routes().substr(route_bytes * static_cast<size_t>(first), route_bytes * static_cast<size_t>(count)));
  const int alternatives = std::max(tree::AlternativesPerId(segment), 0);
  copy(segment.alternative_ids(), alternatives, part.mutable_alternative_ids());
  copy(segment.alternative_logprobs(), alternatives, part.mutable_alternative_logprobs());
  int at = 0;  // index of the run's first id
  for (const v1::VersionRun& run : segment.versions()) {
    const int begin = std::max(at, first), end = std::min(at + run.count(), first + count);
    at += run.count();
    if (begin >= end) continue;
    v1::VersionRun* kept = part.add_versions();
    *kept = run;
    kept->set_count(end - begin);
  }
  return part;
}

SegmentRef PromptSegment(std::span<const int32_t> ids) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_PROMPT);
  segment.mutable_token_ids()->Add(ids.begin(), ids.end());
  return MakeSegmentRef(std::move(segment));
}

std::vector<SegmentRef> PromptSegments(std::span<const int32_t> ids, size_t shared) {
  std::vector<SegmentRef> refs;
  shared = std::min(shared, ids.size());
  if (shared > 0) refs.push_back(PromptSegment(ids.first(shared)));
  if (shared < ids.size()) refs.push_back(PromptSegment(ids.subspan(shared)));
  return refs;
}

}  // namespace ingot::gateway
