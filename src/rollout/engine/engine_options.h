// Defines a rollout engine's options, without torch or gRPC. Bind declares each key with its meaning and bounds.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "kv/options.h"
#include "rollout/routing/router_options.h"
#include "rollout/sampling/repetition_watch.h"
#include "rollout/speculation/speculation_options.h"

namespace ingot::base {
class Schema;
}

namespace ingot::rollout {

// The version that samples an episode's calls.
enum class EpisodeVersion {
  kFollow,  // the newest one, which may change within a call
  kPinned,  // that of the episode's first call, as long as engines have it
};

struct EngineOptions {
  int32_t kv_block_tokens = 16;     // unit of allocation and prefix sharing
  int64_t kv_cache_tokens = 65536;  // rounded down to whole blocks; at least one block
  int32_t max_running = 64;
  int32_t max_waiting = 1024;
  int32_t max_batch_tokens = 1024;  // at least max_running
  // Chunked prefill (Sarathi-Serve, arXiv 2403.02310): maximum prompt tokens in a forward pass that also samples, so
  // that a long prompt does not delay other requests' tokens. 0 = up to max_batch_tokens.
  int32_t prefill_piece_tokens = 0;
  int32_t threads = 1;  // compute threads for a forward pass; > 0
  int32_t context_length = 0;
  // true = each response lists the experts used for its ids (v1::Segment::routes)
  bool record_routes = false;
  int32_t record_alternatives = 0;  // most likely ids recorded per sampled id (v1::Segment::alternative_ids); 0 = none
  bool prefix_cache = true;
  int32_t max_retained_versions = 4;
  EpisodeVersion episode_version = EpisodeVersion::kFollow;
  int32_t episode_versions = 2;  // with kPinned: earlier versions that episodes can continue to use
  // Slice limits: a request that may be paused ends as PAUSED after this many tokens, or this many seconds after its
  // first token (partial rollouts, Kimi k1.5, arXiv 2501.12599, section 2.6.2). 0 = no limit.
  int32_t max_tokens_per_turn_slice = 0;
  double slice_seconds = 0;
  double slice_wait_seconds = 0;  // the rest of a paused request waits up to this long for a newer version
  int64_t request_deadline_ms = 600000;
  double parked_wait_s = 3600;  // a request waits up to this long in a parked engine (parking.h)
  // Set from cluster.placement, not by a key. The trainer may use the engine's memory of a GPU when the engine starts, so
  // its KV cache is allocated by the first forward pass.
  bool shares_device = false;
  bool cuda_graphs = false;  // decode steps on a GPU run as CUDA graphs (decode_graphs.h)
  int64_t update_deadline_ms = 30000;
  int64_t max_update_bytes = int64_t{64} << 30;
  HaltOptions halt;
  SpeculationOptions speculation{};
  kv::Options kv_store{};
  RouterOptions router{};  // used by the engines' clients (engine_set.h), not by an engine

  // Returns INVALID_ARGUMENT, with the field, its value, and the allowed values.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, EngineOptions& options);

// Maximum number and size of a request's stop strings. Requests that exceed these limits fail.
inline constexpr int32_t kMaxStopStrings = 16;
inline constexpr int32_t kMaxStopBytes = 256;

}  // namespace ingot::rollout
