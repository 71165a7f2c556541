// EngineOptions are the settings of one rollout engine. Plain values without torch or gRPC, so that the configuration
// schema can bind them.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "rollout/repetition_watch.h"

namespace ingot::rollout {

struct EngineOptions {
  int32_t kv_block_tokens = 16;          // tokens per KV block, the unit of allocation and of prefix sharing; 1 to 1024
  int64_t kv_cache_tokens = 65536;       // size of the KV cache, rounded down to whole blocks; at least one block
  int32_t max_running = 64;              // requests in one batch; > 0
  int32_t max_waiting = 1024;            // requests beyond max_running; one more is RESOURCE_EXHAUSTED. 0 = no queue
  int32_t max_batch_tokens = 1024;       // tokens in one forward pass (decode rows + prompt chunks); >= max_running
  int32_t threads = 1;                   // compute threads of a forward pass; > 0
  int32_t context_length = 0;            // prompt + sampled tokens of a request; 0 = the model's own
  bool record_routes = false;            // every answer says which experts drew its ids (v1::Segment::routes)
  bool prefix_cache = true;              // true = equal prefixes share their KV; false = every prompt is computed whole
  int32_t max_retained_versions = 4;     // weight versions kept besides the newest; one more is not retained; >= 0
  int64_t request_deadline_ms = 600000;  // from arrival to the last token; then ABORTED. 0 = no deadline
  int64_t update_deadline_ms = 30000;    // for a verified update to be swapped in; > 0
  int64_t max_update_bytes = int64_t{64} << 30;  // payload of one weight update over gRPC; > 0
  int32_t max_stop_strings = 16;                 // per request; 0 = requests with stop strings fail
  int32_t max_stop_bytes = 256;                  // length of one stop string; > 0
  HaltOptions halt;                              // the end of calls that repeat themselves

  // INVALID_ARGUMENT names the field, its value and its allowed values.
  absl::Status Validate() const;
};

}  // namespace ingot::rollout
