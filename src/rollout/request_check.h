// Checks a request to an engine, whoever wrote the engine. Pure function.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "proto/rollout.pb.h"

namespace ingot::rollout {

// What an engine's model and memory allow.
struct RequestLimits {
  int64_t vocab_size = 0;
  int64_t context_length = 0;     // tokens of prompt and answer together
  int64_t kv_tokens = INT64_MAX;  // tokens of one request whose KV fits
  bool has_tokenizer = false;     // false = requests with stop strings fail
};

// Returns INVALID_ARGUMENT, naming the field, if a field is outside the limits or contradicts another one.
absl::Status CheckRequest(const v1::GenerateRequest& request, const RequestLimits& limits);

}  // namespace ingot::rollout
