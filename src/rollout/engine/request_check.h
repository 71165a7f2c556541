// Checks a request to any rollout engine, whether Ingot's own or external. Pure function.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// The limits of an engine's model and memory.
struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t context_length = 0;     // tokens of prompt and answer together
  int64_t kv_tokens = INT64_MAX;  // maximum tokens per request that fit in the KV cache
  bool has_tokenizer = false;     // false = requests with stop strings fail
  bool has_store = false;         // false = requests with prefill_only fail
};

// Returns INVALID_ARGUMENT, naming the field, if a field is outside the limits or contradicts another field.
absl::Status CheckRequest(const v1::GenerateRequest& request, const RequestLimits& limits);

}  // namespace ingot::rollout
