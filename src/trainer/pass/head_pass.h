// The head of a pass over a packed forest: a fused linear cross-entropy in chunks. Forward, it computes the log-probs
// of the loss entries from the last layer's rows. Backward, it computes the gradients of those rows and of the head's
// weight.
//
// Logits are computed once per unique (row, temperature), a few rows at a time, in the type of the sums. Their gradient
// is made in their memory (kernels/torch/softmax.h). A narrow model's gradient by the logits is also rounded to the
// model's type and held for more rows than the logits are. The reason is the weight's gradient: a product over those
// rows passes once over the whole weight, however few they are.
//
// Used by one thread at a time; blocks. Throws c10::Error: callers translate (torch_edge.h).
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

// Numbers of rows, each as wide as the vocabulary, that are held at once.
struct HeadRows {
  HeadRows(int64_t logits_chunk_elements, int64_t vocab, bool narrow);

  int64_t logits;    // in the type of the sums
  int64_t gradient;  // by the logits, in the model's type; equal to `logits` where that is the type of the sums
};

// Per loss entry, in the order of PackedForest::entries.
struct HeadResult {
  double loss = 0;
  std::vector<double> logprobs;
  std::vector<double> entropy;  // of the tempered distribution that sampled the entry's token
};

// Sees the policy of each chunk of rows before it is freed, chunks in the order of the rows. `row` of each entry is the
// index of its row in the policy. A row that several entries read from occurs once in the policy.
using PolicyReader = std::function<void(const kernels::Policy& policy, std::span<const tree::LossEntry> entries,
                                        std::span<const int64_t> row)>;

class HeadPass {
 public:
  // `loss` null = only log-probs. `reader` may be empty. All arguments must outlive it.
  HeadPass(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
           EntryLoss* loss, int64_t logits_chunk_elements, const PolicyReader& reader);

  // Unique (row, temperature) pairs.
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  // Whether an entry reads from the forest's rows [begin, end).
  bool Reads(int32_t begin, int32_t end) const { return PlaceOf(begin) < PlaceOf(end); }

  // Runs the entries of the forest's rows [begin, end), whose output is x [end - begin, hidden]. With a loss, returns
  // the gradient by x [end - begin, hidden] and adds to the .grad of the head and the last norm; else an undefined
  // tensor. `shown` advances by the rows whose logits are computed; null = nothing is shown.
  at::Tensor Run(int32_t begin, int32_t end, const at::Tensor& x, base::WorkPart* shown = nullptr);

  HeadResult& result() { return result_; }

 private:
  // The entries of one chunk of rows, in the order of the rows, and their tokens in the chunk's logits.
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
  // Loss entries sorted by the (row, temperature) they are read from. Row u of the logits is packed token rows_[u] at
  // temperatures_[u]; the entries order_[first_entry_[u]] .. order_[first_entry_[u + 1]) read from it.
  std::vector<int64_t> rows_;
  std::vector<double> temperatures_;
  std::vector<size_t> first_entry_;
  std::vector<size_t> order_;
  HeadResult result_;
};

}  // namespace ingot::trainer
