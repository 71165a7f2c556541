// Runs a model's first prediction layer (model/mtp_head.h) in the torch runner, for drafts. The layer is one more layer
// of the paged KV cache, with pages of its own.
//
//   Follow   after every forward pass: the layer's KV for the pass's rows, from the policy's hidden states, which are
//            kept by slot, because the first row of a piece reads its parent's
//   Draft    one depth of drafts: rows whose state is a hidden state (depth 1) or the previous depth's result
//
// The KV of draft rows is computed again by Follow when the engine verifies them. The first row of a sequence has no
// parent, so its key and value are zero. KV may be missing or from another version, for example after a KV store's
// chunks were read. Drafts are then less often accepted, which is their only effect.
//
// Allocates its memory for the first pass that needs it. Used on the step thread. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "model/config.h"
#include "model/mtp_head.h"
#include "rollout/engine/model_runner.h"
#include "rollout/engine/paged_cache.h"

namespace ingot::rollout {

class MtpRunner {
 public:
  MtpRunner(const model::ModelConfig& config, int64_t blocks, int64_t block_tokens, at::Device device)
      : config_(config), blocks_(blocks), block_tokens_(block_tokens), device_(device) {}

  // `hidden` [rows, hidden_size] is the policy's result for the batch.
  void Follow(const model::MtpHead& head, const ForwardBatch& batch, const at::Tensor& hidden);
  // state [rows, hidden_size] -> [rows, hidden_size]. REQUIRES: the batch has positions and block tables.
  at::Tensor Draft(const model::MtpHead& head, const DraftBatch& batch, const at::Tensor& state);

  // Frees the memory, for example after an error.
  void Drop() {
    cache_.reset();
    hidden_ = at::Tensor();
  }
  // Returns the memory to the system, or to torch's allocator of a device, and returns its number of bytes.
  int64_t Release();

 private:
  // Creates the pages and the hidden states, of the type of `hidden`.
  void Prepare(const model::MtpHead& head, const at::Tensor& hidden);
  // Sets rows_ to the batch's rows with a parent, and parents_. Returns whether all rows have one.
  bool ListRows(const ForwardBatch& batch);
  int64_t SlotOf(const int32_t* block_table, int64_t position) const {
    return block_table[position / block_tokens_] * block_tokens_ + position % block_tokens_;
  }

  const model::ModelConfig config_;
  const int64_t blocks_, block_tokens_;
  const at::Device device_;
  std::optional<PagedCache> cache_;
  at::Tensor hidden_;  // [slots, hidden_size]; undefined = no memory yet

  // The layer's batch.
  ForwardBatch rows_;
  std::vector<int64_t> parents_;  // their parents' slots
};

}  // namespace ingot::rollout
