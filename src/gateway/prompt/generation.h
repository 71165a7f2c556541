// The assembled chunks of one call, and segments built from ids. Plain values and pure functions.
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
  v1::Segment segment;  // SAMPLED: ids, log-probs, version runs and routes, exactly as they came
  std::vector<v1::TopLogprobs> top_logprobs;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  std::string stop_string;
  int32_t cached_tokens = 0;
  v1::CallTimes times;  // queued_unix_ns is set before the first chunk

  int size() const { return segment.token_ids_size(); }
  // INTERNAL, and nothing is added: log-probs, versions or routes do not cover the chunk's ids. Such a call cannot be
  // trained on, so it is not delivered.
  absl::Status Append(const v1::GenerateChunk& chunk, int64_t now_unix_ns);
  // Ends the turn after its first `count` ids. Later ids are dropped and not recorded.
  // REQUIRES: 0 < count <= size().
  void StopAfter(int count);

 private:
  bool RoutesFit(const v1::GenerateChunk& chunk) const;
};

SegmentRef MakeSegmentRef(v1::Segment segment);
// The segment's first `count` ids with their log-probs, versions and routes. REQUIRES: 0 < count <= its ids.
v1::Segment FirstIds(const v1::Segment& segment, int count);
SegmentRef PromptSegment(std::span<const int32_t> ids);
// The segments of a rendered prompt, cut at `shared`: all calls of a scaffold share ids [0, shared), which are then
// stored once. Empty segments are left out.
std::vector<SegmentRef> PromptSegments(std::span<const int32_t> ids, size_t shared);

}  // namespace ingot::gateway
