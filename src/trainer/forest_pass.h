// One pass of the model over a packed forest: log-probs of its loss entries, and the gradient of a loss over them.
//
//   packed tokens --Hidden, tree attention--> rows that predict an entry --logits, log-softmax--> one number per entry
//
// The matrix of logits never exists whole (head_pass.h). The loss gives its derivative by each entry's log-prob; those
// that share a row are added up.
//
// A forest of more rows than `part_tokens` is cut (tree/cut.h): its parts run one after the other, forward in order and
// backward as soon as no later part sees them, and pass keys, values and their gradients on (part_run.h). Up to
// rounding the result is that of the uncut forest. A part that later ones see waits for them: with what its backward
// needs, or, with recompute_prefix, with the keys and values of its exports alone; its forward is then run twice.
//
// Used by one thread at a time; blocks. Throws c10::Error: callers translate (torch_edge.h).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/numerics.h"
#include "model/transformer.h"
#include "trainer/batch.h"
#include "trainer/head_pass.h"
#include "trainer/layer_weights.h"
#include "trainer/options.h"
#include "trainer/step_loss.h"
#include "tree/forest.h"

namespace ingot::trainer {

struct PassOptions {
  int64_t logits_chunk_elements = int64_t{1} << 24;
  int64_t part_tokens = std::numeric_limits<int64_t>::max();  // rows of a part, at most
  bool checkpoint_layers = false;   // keep every layer's input alone and run the layer again: PartRun::Keep::kInputs
  bool recompute_prefix = false;    // run a part that later ones see again instead of keeping it
  std::function<void()> part_done;  // called whenever a part's gradient was added to .grad; may be empty
  kernels::Numerics numerics = kernels::Numerics::kFast;  // of attention's forward pass: PartRun
  LayerWeights* weights = nullptr;                        // of the model that is trained, where they are not all here
};

// What the trainer's options ask of its passes.
PassOptions PassOptionsOf(const TrainerOptions& options);

// All calls of a batch merged across its groups, in the order of OrderChainFirst, with the entries that bear loss.
// Errors as PackForest.
absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch);
// The same of some of its calls, in the order given.
absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch, std::span<const int32_t> calls);

struct PassResult : HeadResult {
  int64_t parts = 0;
  int64_t head_rows = 0;       // unique (row, temperature) pairs
  int64_t repeated_rows = 0;   // rows whose forward was run a second time by recompute_prefix
  int64_t repeated_pairs = 0;  // their visible (query, key) pairs
};

// No gradients, nothing changes.
PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, const PassOptions& options);

// Records in `loss` what it needs to know of the batch's forest before a gradient: log-probs of `reference` (may be
// null where the loss needs none) and of the model itself. One more pass each, without gradients; nothing where the
// loss needs neither. Returns how many. Where it needs_scores(), loss.Fix() comes after them.
int ScoreBefore(const model::Transformer& model, const model::Transformer* reference, const tree::PackedForest& forest,
                std::span<const tree::CallPath> calls, StepLoss& loss, const PassOptions& options);

// Adds the gradient of `loss` over the forest's entries to the parameters' .grad.
PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::CallPath> calls, EntryLoss& loss, const PassOptions& options);

}  // namespace ingot::trainer
