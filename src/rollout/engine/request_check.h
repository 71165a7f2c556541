// Checks a request to any rollout engine, Ingot's own or an external one. Pure function.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// The limits of an engine's model and memory.
struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t context_length = 0;     // tokens of prompt and answer together
  int64_t kv_tokens = INT64_MAX;  // maximum tokens per request whose KV fits
  bool has_tokenizer = false;     // false = requests with stop strings fail
  bool has_store = false;         // false = requests with prefill_only fail
};

// Returns INVALID_ARGUMENT, naming the field, if a field is outside the limits or contradicts another one.
absl::Status CheckRequest(const v1::GenerateRequest& request, const RequestLimits& limits);

}  // namespace ingot::rollout
