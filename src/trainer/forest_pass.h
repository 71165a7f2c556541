// One pass of the model over a packed forest: log-probs of its loss entries, and the gradient of a loss over them.
//
//   packed tokens --Hidden, tree attention--> rows that predict an entry --logits, log-softmax--> one number per entry
//
// Logits are computed once per unique (row, temperature), in chunks of bounded size whose gradients meet at the hidden
// rows, so that the matrix of logits never exists whole. The loss gives its derivative by each entry's log-prob, and
// autograd adds up those that share a row.
//
// Used by one thread at a time; blocks. Throws c10::Error: callers translate (torch_edge.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/numerics.h"
#include "model/transformer.h"
#include "trainer/step_loss.h"
#include "tree/forest.h"

namespace ingot::trainer {

struct PassOptions {
  int64_t logits_chunk_elements = int64_t{1} << 24;
  kernels::Numerics numerics = kernels::Numerics::kFast;  // path_backend.h
};

// Per loss entry, in the order of PackedForest::entries.
struct PassResult {
  double loss = 0;
  std::vector<double> logprobs;
  std::vector<double> entropy;  // of the tempered distribution the entry was drawn from
};

// No gradients, nothing changes.
PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::FlatCall> calls, const PassOptions& options);

// Records in `loss` what it needs to know of the whole batch before a gradient: log-probs of `reference` (may be null
// where the loss needs none) and of the model itself. `forests` are all of the batch's. One more pass each, without
// gradients; nothing where the loss needs neither.
void ScoreForests(const model::Transformer& model, const model::Transformer* reference,
                  std::span<const tree::PackedForest> forests, std::span<const tree::FlatCall> calls, StepLoss& loss,
                  const PassOptions& options);

// Adds the gradient of `loss` over the forest's entries to the parameters' .grad.
PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::FlatCall> calls, EntryLoss& loss, const PassOptions& options);

}  // namespace ingot::trainer
