// Runs the head in a pass over a packed forest: a fused linear cross-entropy in chunks. The forward pass computes the
// loss entries' log-probs from the last layer's rows. The backward pass computes the gradients of those rows and of the
// head's weight.
//
// Logits are computed once per unique (row, temperature), a few rows at a time, in the accumulation type. Their
// gradient is computed in place (kernels/torch/softmax.h). For a model with a narrow type, the gradient with respect to
// the logits is also rounded to that type and kept for more rows than the logits, because the product for the weight's
// gradient reads the whole weight, even for a few rows.
//
// Used by one thread at a time. Blocks. Throws c10::Error; callers translate it (torch_edge.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/work.h"
#include "kernels/torch/softmax.h"
#include "model/transformer.h"
#include "trainer/objectives/step_loss.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The number of rows, each as wide as the vocabulary, that are in memory at once.
struct HeadRows {
  HeadRows(int64_t logits_chunk_elements, int64_t vocab, bool narrow);

  int64_t logits;    // in the accumulation type
  int64_t gradient;  // with respect to the logits, in the model's type; equals `logits` if the types are the same
};

// Per loss entry, in the order of PackedForest::entries.
struct HeadResult {
  double loss = 0;
  std::vector<double> logprobs;
  std::vector<double> entropy;  // entropy of the tempered distribution from which the entry's token was sampled
};

// Receives each row chunk's policy before it is freed, in row order. `row` has the index of each entry's row in the
// policy. A row shared by several entries appears only once in the policy.
using PolicyReader = std::function<void(const kernels::Policy& policy, std::span<const tree::LossEntry> entries,
                                        std::span<const int64_t> row)>;

class HeadPass {
 public:
  // If `loss` is null, computes only log-probs. `reader` may be empty. The arguments must outlive this object.
  HeadPass(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
           EntryLoss* loss, int64_t logits_chunk_elements, const PolicyReader& reader);

  // Returns the number of unique (row, temperature) pairs.
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  // Returns whether any entry reads the forest's rows [begin, end).
  bool Reads(int32_t begin, int32_t end) const { return PlaceOf(begin) < PlaceOf(end); }

  // Runs the entries of the forest's rows [begin, end), whose output is x [end - begin, hidden]. With a loss, returns
  // the gradient with respect to x and adds to the .grad of the head and the last norm. Otherwise, returns an undefined
  // tensor. `shown` advances by the rows whose logits were computed; null = not reported.
  at::Tensor Run(int32_t begin, int32_t end, const at::Tensor& x, base::WorkPart* shown = nullptr);

  HeadResult& result() { return result_; }

 private:
  // The entries of one chunk of rows, in row order, and their tokens in the chunk's logits.
  struct Entries {
    std::vector<tree::LossEntry> entries;
    kernels::PolicyTokens tokens;
  };

  size_t PlaceOf(int32_t row) const;
  Entries EntriesOf(size_t begin, size_t end) const;
  at::Tensor Chunk(const at::Tensor& hidden, size_t begin, size_t end, const at::Tensor& gradient);

  const model::Transformer& model_;
  const tree::PackedForest& forest_;
  EntryLoss* const loss_;
  const PolicyReader& reader_;
  const HeadRows at_once_;
  // Loss entries, sorted by the (row, temperature) that they read. Row u of the logits is packed token rows_[u] at
  // temperatures_[u]. Entries order_[first_entry_[u]] .. order_[first_entry_[u + 1]) read from it.
  std::vector<int64_t> rows_;
  std::vector<double> temperatures_;
  std::vector<size_t> first_entry_;
  std::vector<size_t> order_;
  HeadResult result_;
};

}  // namespace ingot::trainer
