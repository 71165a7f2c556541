// ModelRunner is the interface between the engine's scheduling and the model that runs a step. It does not depend on
// torch: scheduling tests run on a model of plain code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/attention/attention.h"
#include "weights/snapshot.h"

namespace ingot::rollout {

// The weights of one version in the form that its ModelRunner runs. Immutable.
class RunnableModel {
 public:
  virtual ~RunnableModel() = default;
};

// One forward pass over the rows of several sequences, all under one version. It first writes the key and value of row
// i to slot slots[i] = block * block_tokens + offset. Sequence s then attends through its block table.
struct ForwardBatch {
  std::vector<int64_t> token_ids;                     // [rows]
  std::vector<int64_t> positions;                     // [rows]
  std::vector<int64_t> slots;                         // [rows]
  std::vector<kernels::AttentionSequence> sequences;  // block_table points into block_tables
  std::vector<int32_t> block_tables;
  std::vector<int64_t> sampled_rows;  // rows that need a next-token distribution, ascending
  std::vector<float> temperatures;    // > 0, one per sampled row
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
    want_normalizers = want_routes = false;
  }
};

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  virtual int64_t vocab_size() const = 0;
  virtual int64_t context_length() const = 0;
  virtual const std::vector<int32_t>& eos_ids() const = 0;
  // The size limit of this model's snapshots: its parameters, with a tied head counted twice, in the widest type.
  virtual int64_t max_weight_bytes() const = 0;

  // Builds a model over a snapshot and keeps the snapshot alive as long as the model. INVALID_ARGUMENT: it is not a
  // snapshot of this model. Thread safe; may run at the same time as Forward.
  virtual absl::StatusOr<std::shared_ptr<const RunnableModel>> Load(
      std::shared_ptr<const weights::Snapshot> snapshot) = 0;

  // Called once, on the thread that will call Forward.
  virtual void BindThread() {}

  // log_softmax(logits / temperature), [sampled rows, vocab_size], valid until the next call. Writes the KV cache.
  virtual absl::StatusOr<std::span<const float>> Forward(const RunnableModel& model, const ForwardBatch& batch) = 0;

  // logsumexp(logits / temperature) of each row of the last Forward: the number that log_softmax subtracted. REQUIRES:
  // the batch had want_normalizers.
  virtual std::span<const float> LogNormalizers() const = 0;

  // The experts that the sampled rows of the last Forward used, in the form of v1::Segment::routes, row after row;
  // empty = the model has no experts. REQUIRES: the batch had want_routes.
  virtual std::span<const uint16_t> Routes() const { return {}; }
};

}  // namespace ingot::rollout
