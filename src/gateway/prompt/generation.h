// What the engine sent for one request, put together, and the segments made of it. Plain values and pure functions.
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
  v1::Segment segment;  // SAMPLED: ids, log-probs and version runs, exactly as they came
  std::vector<v1::TopLogprobs> top_logprobs;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  std::string stop_string;
  int32_t cached_tokens = 0;
  v1::CallTimes times;

  int size() const { return segment.token_ids_size(); }
  // INTERNAL, and nothing is added, if log-probs or versions do not cover the chunk's ids: such a call cannot be
  // trained on, so it is not delivered either.
  absl::Status Append(const v1::GenerateChunk& chunk, int64_t now_unix_ns);
  // The turn ends behind its first `count` ids: what the engine sampled beyond them is dropped, and is in no record.
  // REQUIRES: 0 < count <= size().
  void StopAfter(int count);
};

Piece MakePiece(v1::Segment segment);
// The segment's first `count` ids with what is said of them. REQUIRES: 0 < count <= its ids.
v1::Segment FirstIds(const v1::Segment& segment, int count);
Piece PromptPiece(std::span<const int32_t> ids);
// The pieces of a whole rendered prompt: what every call of a scaffold shares, [0, shared), apart, so that it is stored
// once. Empty pieces are left out.
std::vector<Piece> PromptPieces(std::span<const int32_t> ids, size_t shared);

}  // namespace ingot::gateway
