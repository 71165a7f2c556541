// Defines the interface between the engine's scheduling and the model that runs a step. It does not depend on torch, so
// scheduling tests can use a simple model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/attention/attention.h"
#include "rollout/cache/kv_pages.h"
#include "weights/snapshot.h"

namespace ingot::rollout {

// One version's weights in the ModelRunner's own form. Immutable.
class RunnableModel {
 public:
  virtual ~RunnableModel() = default;
};

// The race (kernels/draws/race.h) that draws a sampled row's id.
struct RowRace {
  bool whole = false;  // true = the race is over all ids, and the engine needs nothing else of the row
  uint64_t seed = 0;
};

// The winner of a RowRace.
struct DrawnId {
  int32_t id = -1;  // -1 = the row's log-probs are NaN
  float logprob = 0;
};

// One forward pass over rows from several sequences, all with the same version. It first writes row i's key and value
// to slots[i] = block * block_tokens + offset. Then each sequence attends through its block table.
struct ForwardBatch {
  std::vector<int64_t> token_ids;                     // [rows]
  std::vector<int64_t> positions;                     // [rows]
  std::vector<int64_t> slots;                         // [rows]
  std::vector<kernels::AttentionSequence> sequences;  // block_table refers to block_tables
  std::vector<int32_t> block_tables;
  std::vector<int64_t> sampled_rows;  // rows that need a next-token distribution, ascending
  std::vector<float> temperatures;    // > 0, one per sampled row
  std::vector<RowRace> races;         // one per sampled row
  bool want_normalizers = false;      // true = LogNormalizers will be called
  bool want_routes = false;           // true = Routes will be called

  void Clear() {
    token_ids.clear();
    positions.clear();
    slots.clear();
    sequences.clear();
    block_tables.clear();
    sampled_rows.clear();
    temperatures.clear();
    races.clear();
    want_normalizers = want_routes = false;
  }
};

// Rows for a model's draft head (model/draft_head.h). Row i reads an id and the hidden state before it, at from[i],
// which is a slot (in the first Draft) or a row of the previous Draft.
struct DraftBatch {
  bool first = true;
  bool shadow = false;              // true = runs the model's shadow head (draft_shadow.h)
  std::vector<int64_t> from;        // [rows]
  std::vector<int64_t> token_ids;   // [rows]
  std::vector<float> temperatures;  // [rows], > 0
  // For a head with attention: the ids' positions, and the blocks of each row's request, which have room for the id.
  std::vector<int64_t> positions;     // [rows]
  std::vector<int64_t> tables;        // [rows], the index of the row's first block in block_tables
  std::vector<int32_t> block_tables;  // one request's blocks after another's
};

// The distributions after a DraftBatch's ids, up to a constant offset per row.
struct DraftRows {
  std::span<const float> logprobs;  // [rows, width]
  size_t width = 0;
  std::span<const int32_t> ids;  // [width], ascending; empty = entry i is id i
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual int64_t vocab_size() const = 0;
  virtual int64_t context_length() const = 0;
  virtual const std::vector<int32_t>& eos_ids() const = 0;
  // Returns the size limit for this model's snapshots: its parameters in the widest type, with a tied head counted
  // twice.
  virtual int64_t max_weight_bytes() const = 0;

  // Builds a model from a snapshot, which the model keeps alive. Returns INVALID_ARGUMENT if it is not a snapshot of
  // this model. Thread safe and may run concurrently with Forward.
  virtual absl::StatusOr<std::shared_ptr<const RunnableModel>> Load(
      std::shared_ptr<const weights::Snapshot> snapshot) = 0;

  // Returns whether the KV cache can remove a sequence's last rows so that they can be computed again with other ids.
  // If not, drafts are not verified.
  virtual bool can_take_back() const { return true; }

  // Returns the KV cache's memory, for a store that engines share. `model` is one of the models that use the cache.
  // Null = the memory cannot be read, for example because it is on a GPU.
  virtual KvPages* Pages(const RunnableModel& /*model*/) { return nullptr; }

  // Called once on the thread that will call Forward.
  virtual void BindThread() {}

  // Called on that thread: true = passes follow, false = the engine waits for requests. A runner may lend its compute
  // threads while the engine waits.
  virtual void SetComputing(bool /*computing*/) {}

  // Returns the memory of the KV cache and of earlier results to the system, and the number of bytes. The contents of
  // all slots are lost. Later passes use the memory again. Called on the same thread.
  virtual absl::StatusOr<int64_t> ReleaseMemory() {
    return absl::UnimplementedError("the model runner cannot release its memory");
  }

  // Returns log_softmax(logits / temperature), shape [sampled rows, vocab_size], valid until the next call. Leaves out
  // the rows with a whole race if the runner draws. Writes the KV cache.
  virtual absl::StatusOr<std::span<const float>> Forward(const RunnableModel& model, const ForwardBatch& batch) = 0;

  // Returns whether Forward runs the whole races of a batch, where the rows are, instead of returning these rows.
  virtual bool draws() const { return false; }

  // Returns the winners of the last Forward's whole races, in the order of their rows. REQUIRES: draws().
  virtual std::span<const DrawnId> Drawn() const { return {}; }

  // Returns logsumexp(logits / temperature), which log_softmax subtracted, for each row in the last Forward. REQUIRES:
  // the batch had want_normalizers.
  virtual std::span<const float> LogNormalizers() const = 0;

  // Returns the experts used by the sampled rows in the last Forward, row by row in the format of v1::Segment::routes;
  // empty = the model has no experts. REQUIRES: the batch had want_routes.
  virtual std::span<const uint16_t> Routes() const { return {}; }

  // Copies the hidden state of the last Forward's sampled row `row` to `slot`, which TakeSlot returned. Returns false if
  // the model has no draft head, or if there is no memory for the copy.
  virtual bool KeepHidden(size_t /*row*/, size_t /*slot*/) { return false; }

  // Returns whether the model has a second draft head whose drafts are only counted (draft_shadow.h).
  virtual bool has_shadow(const RunnableModel&) const { return false; }

  // Runs the model's draft head. The result is valid until the next call. REQUIRES: KeepHidden has returned true for
  // this model and has written the slots.
  virtual absl::StatusOr<DraftRows> Draft(const RunnableModel&, const DraftBatch&) {
    return absl::UnimplementedError("the model runner has no draft heads");
  }

  // Called on the step thread.
  size_t TakeSlot() {
    if (free_slots_.empty()) return slots_++;
    const size_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }
  void ReturnSlot(size_t slot) { free_slots_.push_back(slot); }

 private:
  std::vector<size_t> free_slots_;
  size_t slots_ = 0;
};

}  // namespace ingot::rollout
