// Defines a request inside the engine. Plain data, owned and modified by EngineCore.
//
//   waiting --admitted--> running --finished, cancelled, failed--> gone
//      ^                     |
//      +-----preempted-------+   (releases its blocks; they are recomputed after the next admission)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "proto/rollout.pb.h"
#include "rollout/cache/kv_blocks.h"
#include "rollout/engine/chunk_gate.h"
#include "rollout/engine/contents.h"
#include "rollout/engine/model_runner.h"
#include "rollout/sampling/constraint.h"
#include "rollout/sampling/logit_shaping.h"
#include "rollout/sampling/repetition_watch.h"
#include "rollout/sampling/sampling.h"
#include "rollout/sampling/stop_matcher.h"
#include "rollout/speculation/drafter.h"

namespace ingot::rollout {

// One loaded weight version. Exists as long as the engine keeps it or a pinned request uses it.
struct WeightVersion : std::enable_shared_from_this<WeightVersion> {
  int64_t version = -1;
  uint64_t checksum = 0;
  uint64_t policy_checksum = 0;  // without the draft head, which does not change the KV
  uint64_t salt = 0;  // > 0 and unique per load in this process; identifies its KV, even if a version number is reused
  int64_t loaded_unix_ns = 0;
  std::shared_ptr<const RunnableModel> model;
};

// A wait for chunks from a KV store (kv_fetcher.h), which several requests may share.
struct KvWait {
  uint64_t salt = 0;  // of the version whose chunks they are
  bool over = false;
  base::Key128 next{};  // once over: the first chunk that did not come; 0 = all came
  std::chrono::nanoseconds deadline = std::chrono::nanoseconds::max();
};

struct Sequence {
  // Constant after Add. The request proto is not stored. Its prompt is in `tokens`.
  std::string request_id;
  DrawOptions draw;
  Contents contents;                            // for the prompt's placeholders
  std::vector<int32_t> forced_ids;              // used instead of sampling; empty = the sampler draws ids
  int64_t first_index = 0;                      // ids in `tokens` that an earlier engine sampled
  bool prefill_only = false;                    // computes prefill_end tokens for the KV store and samples nothing
  size_t prefill_end = 0;                       // the whole chunks before the last token
  size_t score_from = 0;                        // > 0 = scores the tokens starting here and samples nothing
  int32_t top_logprobs = 0;                     // number of alternatives reported per token
  bool record_routes = false;                   // includes Segment.routes in responses
  int32_t record_alternatives = 0;              // entries of Segment.alternative_ids per token
  int64_t min_version = 0;                      // oldest version that may sample the request if it is not pinned
  int64_t pinned_version = -1;                  // -1 = follows the newest version
  std::shared_ptr<const WeightVersion> pinned;  // weights for pinned_version; null = follows the newest version
  // True = `pinned` is the preferred version, or the newest one when the request is first admitted, which sets it.
  bool keeps_version = false;
  int64_t preferred_version = -1;  // with keeps_version; -1 = none
  std::shared_ptr<ChunkGate> gate;
  std::optional<StopMatcher> stops;
  std::optional<LogitShaper> shaper;     // penalties and biases; nullopt = none
  std::optional<Constraint> constraint;  // the request's grammar; nullopt = none
  std::optional<RepetitionWatch> watch;  // nullopt = repetition does not end the request
  std::vector<int32_t> stop_ids;         // eos ids (unless ignored) and the request's stop ids
  int64_t min_new_tokens = 0;            // stop strings are not matched in the first min_new_tokens tokens
  std::chrono::nanoseconds deadline{0};  // time on the engine's clock; max() = no deadline
  // Slice limits. The request is paused when tokens.size() reaches pause_size, or at pause_time (engine clock; set by
  // its first token). Until hold_until, it waits for a version newer than newer_than.
  bool may_pause = false;
  size_t pause_size = std::numeric_limits<size_t>::max();
  std::chrono::nanoseconds pause_time = std::chrono::nanoseconds::max();
  int64_t newer_than = -1;
  std::chrono::nanoseconds hold_until{0};
  size_t prompt_size = 0;
  size_t limit = 0;   // the request ends with FINISH_LENGTH when tokens.size() reaches this
  int64_t order = 0;  // by arrival; older requests run first and are preempted last

  // The expected ids after the first `first_index` sampled ids. Cleared when a different id is sampled.
  std::vector<int32_t> draft_ids;

  // Progress.
  std::vector<int32_t> tokens;  // prompt and sampled ids
  int64_t sampled() const { return static_cast<int64_t>(tokens.size() - prompt_size); }
  std::chrono::nanoseconds arrived{0};  // the arrival in `times`, on the engine's clock
  v1::CallTimes times;
  int32_t cached_tokens = -1;  // -1 = never admitted
  std::vector<float> scores;   // scores for tokens [score_from, computed), by offset

  // Returns the number of leading tokens whose KV may be read from the cache. Every row that produces a distribution
  // must be computed.
  size_t reusable() const { return prefill_only ? prefill_end : score_from > 0 ? score_from - 1 : tokens.size() - 1; }
  // Returns the number of tokens to compute. The distribution after a scored request's last token is not needed.
  size_t computable() const { return prefill_only ? prefill_end : score_from > 0 ? tokens.size() - 1 : tokens.size(); }

  // Returns whether a row's sampled id and its log-prob are all that the request needs of it.
  bool needs_only_the_draw() const {
    return draw.races_over_all() && forced_ids.empty() && top_logprobs == 0 && record_alternatives == 0 &&
           !shaper.has_value() && !constraint.has_value();
  }

  // KV. Empty while waiting.
  std::vector<KvBlocks::Ref> blocks;
  size_t computed = 0;    // number of tokens whose KV is in `blocks`
  size_t published = 0;   // number of leading blocks that are named in the cache
  uint64_t kv_salt = 0;   // salt of the version that last computed KV; 0 = no KV yet
  bool kv_mixed = false;  // true = another version computed part of the KV
  size_t planned = 0;     // number of rows in the step being planned, without drafts

  // Chunks in a KV store.
  std::shared_ptr<const KvWait> kv_wait;               // null = it waits for none
  uint64_t kv_looked_salt = 0;                         // salt of the version for which the store was asked
  size_t kv_offered = 0;                               // leading chunks that were offered to the store
  std::shared_ptr<std::atomic<int32_t>> kv_unwritten;  // those that are not written yet; null = none was offered

  // Speculation.
  Draft draft;               // ids that the step being planned verifies after `tokens`
  size_t drafter = 0;        // index of the drafter that proposed them
  size_t accepted = 0;       // number of leading draft ids that were sampled
  size_t drawn_row = 0;      // the last forward pass's sampled row from which the last id was drawn
  bool takes_drafts = true;  // false = a draft caused a NaN
  int32_t drafted_tokens = 0, accepted_tokens = 0;

  void ReleaseKv() {
    KvBlocks::ReleaseAll(blocks);
    computed = published = planned = kv_offered = 0;
    kv_salt = 0;
    kv_mixed = false;
    draft.ids.clear();
  }
};

}  // namespace ingot::rollout
