// Implements continuous batching over a paged KV cache with shared prefixes. Decides which tokens of which requests the
// next forward pass computes. Owns the requests and the blocks. The caller provides the model and the clock.
//
// Each step:
//   1. drops cancelled and late requests, and requests that require a newer version,
//   2. admits waiting requests, oldest first, as long as there are slots and blocks,
//   3. plans one row for every decoding request, then as much of each prompt as fits in max_batch_tokens and, if any
//      request is decoding, in prefill_piece_tokens, then rows for drafts (drafter.h),
//   4. runs one forward pass per weight version in use, and samples one id per request, plus one more for each draft
//      that equals the id sampled before it.
//
// If there are not enough blocks, the core preempts the youngest request. That request releases its blocks, keeps its
// sampled tokens, and is recomputed later. The oldest request can always run, so every request eventually ends.
//
// If a waiting request has the same prompt prefix as a request whose prompt is being computed, it waits for those
// blocks instead of recomputing them. So a group computes its prompt only once.
//
// Not thread safe. All functions are called on the step thread. Does not depend on torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rollout/cache/kv_blocks.h"
#include "rollout/cache/kv_transfer.h"
#include "rollout/engine/engine_options.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/sequence.h"
#include "rollout/sampling/sampling.h"
#include "rollout/speculation/draft_shadow.h"
#include "rollout/speculation/speculator.h"

namespace ingot::rollout {

// A message to a request. The engine delivers messages in order after the step.
struct Emission {
  std::shared_ptr<ChunkGate> gate;
  absl::StatusOr<v1::GenerateChunk> chunk;
  bool last = false;
};

// Returns UNAVAILABLE if `sequence` follows the newest version and that version is older than its min_version, or if it
// keeps a version later than the newest. Returns OK before the first version.
absl::Status CheckMinVersion(const Sequence& sequence, const WeightVersion* newest);

struct CoreStats {
  int64_t sampled_tokens = 0;
  int64_t prompt_tokens = 0;         // prompt tokens in admitted requests, each counted once
  int64_t cached_prompt_tokens = 0;  // prompt tokens found in the cache
  int64_t preemptions = 0;
  int64_t paused_requests = 0;
  int64_t prefill_requests = 0;
  int64_t dropped_draft_ids = 0;  // ids in draft_ids from the first one that was not sampled
  int64_t forward_rows = 0;
  int64_t forward_passes = 0;
  int64_t sampling_passes = 0;       // a pass that samples n requests counts n times
  uint64_t newest_sampled_salt = 0;  // salt of the version that last sampled as the newest one; 0 = none yet
};

// Same as v1::PrefillProgress, but on the engine's clock.
struct Prefill {
  int32_t requests = 0;
  int64_t tokens = 0, prefilled = 0;
  std::chrono::nanoseconds oldest{0};  // arrival time of the oldest request
};

class EngineCore {
 public:
  // REQUIRES: `options` are valid and context_length is resolved. `runner` and `clock` outlive the core.
  // `drafters` replace those of options.speculation; empty = those. `store` has KV that engines share; nullopt = none.
  EngineCore(const EngineOptions& options, ModelRunner* runner, const base::Clock* clock,
             std::vector<std::unique_ptr<Drafter>> drafters = {}, std::optional<KvTransfer::Parts> store = {});

  // Appends a validated request to the queue.
  void Add(std::unique_ptr<Sequence> sequence);

  // Starting with the next step, unpinned requests run on `version`. Running requests keep their KV. A request with a
  // later min_version ends with UNAVAILABLE, even after it has sent chunks, as if the engine had died.
  void SetNewest(std::shared_ptr<const WeightVersion> version);

  // Advances as many requests as possible by one forward pass, and appends their messages to `out`.
  void Step(std::vector<Emission>* out);

  // Park stops all requests and frees all blocks: their tokens and seeds stay, and the KV cache's contents may be lost.
  // Until Resume, Step only ends cancelled requests, and those that have waited for options.parked_wait_s. Deadlines
  // are moved by the time that requests have waited.
  void Park();
  void Resume();
  bool parked() const { return parked_at_.has_value(); }

  // From now on, no accepted request pauses at the end of its slice or waits for a newer version.
  void StopPausing();

  // Ends every request with `status`.
  void FailAll(const absl::Status& status, std::vector<Emission>* out);

  // Returns false if parked, if there are no requests, or if all of them are waiting for a version.
  bool CanStep() const;
  // Returns the time at which the next request becomes late; max() = no request has a deadline.
  std::chrono::nanoseconds next_deadline() const { return next_deadline_; }
  // Returns the time at which a request stops waiting for chunks from a store; max() = none waits.
  std::chrono::nanoseconds next_fetch_deadline() const {
    return transfer_ == nullptr ? std::chrono::nanoseconds::max() : transfer_->next_deadline();
  }

  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  // Includes requests with prefill_only whose chunks are being written.
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size() + prefilled_.size()); }
  // Returns the prefill progress of requests that cannot sample yet. `requests` is 0 if there are none.
  Prefill prefill() const;
  const KvBlocks& blocks() const { return blocks_; }
  const CoreStats& stats() const { return stats_; }
  const KvTransfer* transfer() const { return transfer_.get(); }  // null = there is no store
  const std::vector<Speculator::Counts>& drafters() const { return speculator_.counts(); }
  const DraftShadow::Counts& draft_shadow() const { return draft_shadow_.counts(); }
  // Returns why no later step can succeed: the device failed, or at least kMinFailedPasses forward passes in a row
  // failed, and they and the pauses between them took at least kMinFailingTime. OK = steps can succeed.
  const absl::Status& fault() const { return fault_; }

  // The maximum number of rows that one step may score, and of drafts that it may verify. Each one needs a
  // vocabulary-sized row in memory.
  static constexpr int kScoredRows = 64, kDraftRows = 64;

  // Another process may take the device's memory for a moment, in which many short passes can fail. A pause between two
  // of them counts at most kMaxPause: clients retry after a pause, but an idle engine is not a failing one.
  static constexpr int kMinFailedPasses = 8;
  static constexpr std::chrono::seconds kMinFailingTime{20}, kMaxPause{5};

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  void Reap(std::vector<Emission>* out);
  bool ReapOne(Sequence& sequence, std::chrono::nanoseconds now, bool is_waiting, std::vector<Emission>* out);
  absl::Status CheckParkedWait(const Sequence& sequence, std::chrono::nanoseconds now) const;
  void DropUnusedSalts();
  void FetchChunks();
  void NoteSalt(const WeightVersion& version);
  void Admit();
  bool AwaitsVersion(const Sequence& sequence) const;
  bool IsHeld(const Sequence& sequence) const;
  bool TryAdmit(Sequence& sequence);
  bool AwaitsSibling(const Sequence& sequence, uint64_t salt, size_t matched_tokens) const;
  // Returns the number of rows left in the step's budget.
  size_t Plan();
  size_t PlanRows(bool decoding, size_t budget, size_t& scored_budget);
  void PlanDrafts(size_t free_rows);
  size_t RoomForDrafts(const Sequence& sequence) const;
  int64_t PlannedRows() const;
  size_t MissingBlocks(const Sequence& sequence, size_t tokens) const;
  bool EnsureBlocks(Sequence& sequence, size_t tokens);
  void Preempt(size_t running_index);
  void RunVersion(const WeightVersion& version, std::vector<Emission>* out);
  // Counts a forward pass that began at `start` and failed, and sets the fault.
  void NoteFailedPass(const absl::Status& error, std::chrono::nanoseconds start);
  // Ends the requests of such a forward pass.
  void FailPass(const absl::Status& error, std::chrono::nanoseconds start, std::vector<Emission>* out);
  void AppendRows(Sequence& sequence, const WeightVersion& version);
  void OfferChunks(const WeightVersion& version, std::chrono::nanoseconds took);
  void TakeBackNaN();
  void Publish(Sequence& sequence, uint64_t salt);
  size_t RowsOf(const Sequence& sequence, size_t budget, size_t& scored_budget) const;
  absl::Status Score(Sequence& sequence, size_t token, const WeightVersion& version, std::span<const float> row);
  void FinishPrefills(std::vector<Emission>* out);
  void FinishScored(Sequence& sequence, const WeightVersion& version, std::vector<Emission>* out);
  // A row of the last forward pass from which an id is sampled.
  struct DrawRow {
    std::span<const float> logprobs;  // empty = the runner has drawn the id
    DrawnId drawn;                    // what the runner has drawn
    float log_normalizer = 0;
    std::span<const uint16_t> routes;  // empty = not recorded
    bool nan() const;
  };
  // Samples from the request's rows in order, as long as each draft equals the id sampled before it. Returns true if
  // the request ended.
  bool Sample(Sequence& sequence, const WeightVersion& version, std::span<const DrawRow> rows,
              std::vector<Emission>* out);
  void Settle(Sequence& sequence, uint64_t salt);
  bool SampleOne(Sequence& sequence, const WeightVersion& version, const DrawRow& row, std::vector<Emission>* out);
  void Count(Sequence& sequence, const WeightVersion& version, int32_t id);
  void DropDraftIds(Sequence& sequence, int64_t index);
  // Frees the resources of an ended request.
  void Release(Sequence& sequence);
  absl::StatusOr<DrawnId> NextId(Sequence& sequence, const WeightVersion& version, const DrawRow& drawn);
  // Fills draw_rows_ from the runner's results.
  void ListDrawRows(std::span<const float> rows);
  bool Pauses(const Sequence& sequence) const;
  v1::FinishReason FinishOf(Sequence& sequence, int32_t id, float logprob, v1::GenerateChunk* chunk);
  void FillLast(const Sequence& sequence, v1::FinishReason finish, v1::GenerateChunk* chunk) const;
  const WeightVersion* VersionOf(const Sequence& sequence) const;

  const EngineOptions options_;
  ModelRunner& runner_;
  const base::Clock& clock_;

  Sampler sampler_;
  Speculator speculator_;
  DraftShadow draft_shadow_;
  KvBlocks blocks_;
  std::unique_ptr<KvTransfer> transfer_;  // null = there is no store
  std::deque<SequencePtr> waiting_;       // sorted by order
  std::vector<SequencePtr> running_;      // sorted by order
  std::vector<SequencePtr> prefilled_;    // requests with prefill_only whose chunks are being written
  std::shared_ptr<const WeightVersion> newest_;
  std::vector<std::pair<uint64_t, std::weak_ptr<const WeightVersion>>> salts_;  // salts of possibly named blocks
  std::chrono::nanoseconds next_deadline_ = std::chrono::nanoseconds::max();
  std::optional<std::chrono::nanoseconds> parked_at_;  // nullopt = not parked
  CoreStats stats_;
  int failed_passes_ = 0;                     // in a row
  std::chrono::nanoseconds failing_time_{0};  // of these passes and the pauses between them
  std::chrono::nanoseconds last_failure_{0};
  absl::Status fault_;

  // State for the forward pass being prepared.
  ForwardBatch batch_;
  std::vector<Sequence*> batch_sequences_;
  std::vector<Sequence*> batch_sampled_;
  std::vector<size_t> batch_targets_;  // index of the token that each sampled row scores; 0 = the row samples
  std::vector<DrawRow> draw_rows_;
  std::vector<Speculator::Sampling> sampling_;
  ShapingScratch scratch_;
};

}  // namespace ingot::rollout
