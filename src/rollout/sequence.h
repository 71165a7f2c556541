// A Sequence is one request inside the engine. Plain state, owned and changed by EngineCore.
//
//   waiting --admitted--> running --finished, cancelled, failed--> gone
//      ^                     |
//      +-----preempted-------+   (blocks released; computed again when admitted again)
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/rollout.pb.h"
#include "rollout/chunk_gate.h"
#include "rollout/constraint.h"
#include "rollout/contents.h"
#include "rollout/kv_blocks.h"
#include "rollout/logit_shaping.h"
#include "rollout/model_runner.h"
#include "rollout/repetition_watch.h"
#include "rollout/sampling.h"
#include "rollout/stop_matcher.h"

namespace ingot::rollout {

// One version of the weights, loaded. It lives while the engine holds it or a pinned request runs on it.
struct WeightVersion : std::enable_shared_from_this<WeightVersion> {
  int64_t version = -1;
  uint64_t checksum = 0;
  uint64_t salt = 0;  // > 0, unique per load in this process: names its KV, even if a version number comes again
  int64_t loaded_unix_ns = 0;
  std::shared_ptr<const RunnableModel> model;
};

struct Sequence {
  // Constant after Add. The request's proto is not kept: its prompt is in `tokens`.
  std::string request_id;
  DrawOptions draw;
  Contents contents;                            // of the prompt's placeholders
  std::vector<int32_t> forced_ids;              // taken instead of draws; empty = the sampler draws
  size_t score_from = 0;                        // > 0: tokens from here on are scored, and nothing is sampled
  int32_t top_logprobs = 0;                     // alternatives reported per token
  bool record_routes = false;                   // answers with Segment.routes
  int64_t min_version = 0;                      // the oldest version that may sample it if it is not pinned
  int64_t pinned_version = -1;                  // -1 = follows the newest version
  std::shared_ptr<const WeightVersion> pinned;  // of pinned_version; null = follows the newest version
  std::shared_ptr<ChunkGate> gate;
  std::optional<StopMatcher> stops;
  std::optional<LogitShaper> shaper;     // penalties and biases, if requested
  std::optional<Constraint> constraint;  // its grammar, if it has one
  std::optional<RepetitionWatch> watch;  // if a repetition ends it
  std::vector<int32_t> stop_ids;         // eos ids (unless ignored) and the request's own
  int64_t min_new_tokens = 0;            // ids whose text has no stop string
  std::chrono::nanoseconds deadline{0};  // on the engine's clock; max() = no deadline
  size_t prompt_size = 0;
  size_t limit = 0;   // tokens.size() at which it ends with FINISH_LENGTH
  int64_t order = 0;  // of arrival: older requests run first and are preempted last

  // Progress.
  std::vector<int32_t> tokens;  // prompt and sampled
  int64_t sampled() const { return static_cast<int64_t>(tokens.size() - prompt_size); }
  std::chrono::nanoseconds arrived{0};  // on the engine's clock, when the arrival in `times` was read
  v1::CallTimes times;
  int32_t cached_tokens = -1;  // -1 = never admitted
  std::vector<float> scores;   // of tokens [score_from, computed], by offset; later scores are not known yet

  // The leading tokens whose KV may come from the cache: every row that gives a distribution is computed.
  size_t reusable() const { return score_from > 0 ? score_from - 1 : tokens.size() - 1; }
  // The tokens to compute: the distribution after a scored request's last token does not count.
  size_t computable() const { return score_from > 0 ? tokens.size() - 1 : tokens.size(); }

  // KV, empty while waiting.
  std::vector<KvBlocks::Ref> blocks;
  size_t computed = 0;    // tokens whose KV is in `blocks`
  size_t published = 0;   // leading blocks that are named in the cache
  uint64_t kv_salt = 0;   // of the version that computed KV last; 0 = no KV yet
  bool kv_mixed = false;  // true = another version computed a part of the KV
  size_t planned = 0;     // rows in the step being planned

  void ReleaseKv() {
    KvBlocks::ReleaseAll(blocks);
    computed = published = planned = 0;
    kv_salt = 0;
    kv_mixed = false;
  }
};

}  // namespace ingot::rollout
