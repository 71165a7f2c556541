// Assembles a call's chunks into a Generation, and builds segments from ids. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/prompt/history.h"
#include "proto/rollout.pb.h"

namespace ingot::gateway {

struct Generation {
  v1::Segment segment;  // SAMPLED: ids, log-probs, version runs, routes, and alternatives, as received
  std::vector<v1::TopLogprobs> top_logprobs;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  bool provisional = false;  // true = the engine has not confirmed the versions; such a segment is not recorded
  std::string stop_string;
  int32_t cached_tokens = 0;
  v1::CallTimes times;  // queued_unix_ns is set before the first chunk arrives

  int size() const { return segment.token_ids_size(); }
  // Called when the engine was lost and another engine continues the call. The new engine's first chunk replaces all
  // ids but the first `kept`.
  void AskAgain(int kept, int64_t now_unix_ns);
  // Returns true if the last engine has sent more ids than the engines before it.
  bool grew_since_ask() const { return grew_ && size() > lost_; }
  // Returns INTERNAL and appends nothing if log-probs, versions, routes, or alternatives do not cover the chunk's ids,
  // or if the last chunk's answer_versions are required or given but do not cover the answer. Such a call is not
  // delivered because it cannot be trained on.
  absl::Status Append(const v1::GenerateChunk& chunk, int64_t now_unix_ns);
  // Ends a slice (rollout.max_tokens_per_turn_slice) after the ids so far, which never change again.
  void EndSlice();
  int sliced() const { return sliced_; }  // ids in slices that have ended
  // REQUIRES: size() > 0.
  int64_t last_version() const { return segment.versions(segment.versions_size() - 1).version(); }
  // Ends the turn after its first `count` ids. Later ids are dropped and not recorded. REQUIRES: sliced() < count <= size().
  void StopAfter(int count);

 private:
  void KeepFirst(int count);
  bool RoutesFit(const v1::GenerateChunk& chunk) const;
  bool AlternativesFit(const v1::GenerateChunk& chunk) const;
  bool AnswerVersionsFit(const v1::GenerateChunk& chunk) const;

  int64_t asked_unix_ns_ = 0;  // when the last engine received the call; 0 = times.queued_unix_ns
  int kept_ = 0;               // number of ids from earlier engines
  int sliced_ = 0;
  int lost_ = 0;       // number of ids when AskAgain was called
  bool grew_ = false;  // a chunk has arrived since
};

SegmentRef MakeSegmentRef(v1::Segment segment);
// Returns `count` of the segment's ids, from index `first` on, with their log-probs, versions, routes, and alternatives.
// REQUIRES: 0 <= first, 0 < count, and first + count <= the segment's size.
v1::Segment PartOf(const v1::Segment& segment, int first, int count);
SegmentRef PromptSegment(std::span<const int32_t> ids);
// Returns a rendered prompt's segments, split at `shared`. All of a scaffold's calls share ids [0, shared), so they are
// stored only once. Omits empty segments.
std::vector<SegmentRef> PromptSegments(std::span<const int32_t> ids, size_t shared);

}  // namespace ingot::gateway
