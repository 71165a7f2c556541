// Runs the model over a packed forest: computes the log-probs of its loss entries and the gradient of a loss over them.
//
//   packed tokens --Hidden, tree attention--> rows that predict an entry --logits, log-softmax--> one number per entry
//
// The logits are never all in memory at once (head_pass.h). The loss returns its derivative with respect to each
// entry's log-prob. Derivatives for entries that share a row are added.
//
// A forest with more rows than `part_tokens` is split (tree/cut.h). Its parts run one after another and pass keys,
// values, and their gradients to each other (part_run.h). A part's backward pass runs as soon as no later part needs
// it. The result equals the whole forest's up to rounding.
//
// A part that later parts need waits for them and keeps everything for its backward pass. With recompute_prefix, it
// keeps only its exports' keys and values, and its forward pass runs twice.
//
// Used by one thread at a time. Blocks. Throws c10::Error; callers translate it (torch_edge.h).
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
#include "trainer/objectives/step_loss.h"
#include "trainer/options.h"
#include "trainer/pass/expert_record.h"
#include "trainer/pass/head_pass.h"
#include "trainer/pass/layer_weights.h"
#include "trainer/pass/recorded_routes.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Receives the output [end - begin, hidden_size] of the last layer, before the last norm, for the forest's rows
// [begin, end), without history. Each row is passed once.
using HiddenReader = std::function<void(int32_t begin, int32_t end, const at::Tensor& x)>;

struct PassOptions {
  int64_t logits_chunk_elements = int64_t{1} << 24;
  int64_t part_tokens = std::numeric_limits<int64_t>::max();  // maximum number of rows in a part
  bool checkpoint_layers = false;   // keep only each layer's input and rerun the layer (PartRun's kInputs)
  bool recompute_prefix = false;    // rerun a part that later parts need, instead of keeping its layers
  PolicyReader read_policy;         // receives the policies of the rows that entries read; may be empty
  HiddenReader read_hidden;         // may be empty
  std::function<void()> part_done;  // called after each part's gradient has been added to .grad; may be empty
  kernels::Numerics numerics = kernels::Numerics::kFast;  // for attention's forward pass (PartRun)
  ExpertRecord* experts = nullptr;         // for passes with a gradient; null = count nothing and add no term
  const RecordedRoutes* routes = nullptr;  // the forest's recorded routes; null = not recorded
  LayerWeights* weights = nullptr;         // loads weights that ranks have divided; null = all are here
};

PassOptions PassOptionsOf(const TrainerOptions& options);

// Merges all calls in a batch, across groups, in OrderChainFirst order. Entries are the loss-bearing tokens. Same
// errors as PackForest.
absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch);
// Same as above, but for a subset of the calls, in the given order.
absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch, std::span<const int32_t> calls);

struct PassResult : HeadResult {
  int64_t parts = 0;
  int64_t head_rows = 0;              // unique (row, temperature) pairs
  int64_t repeated_rows = 0;          // rows whose forward pass ran twice because of recompute_prefix
  int64_t repeated_pairs = 0;         // their visible (query, key) pairs
  int64_t repeated_window_pairs = 0;  // those pairs that are within the model's window
};

// Computes only log-probs and entropies. Computes no gradient and does not change `model`.
PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, const PassOptions& options);

// Records the log-probs that `loss` needs before a gradient: from `reference` if needs_reference(), and from the model
// if needs_scores(). `reference` may be null if it is not needed. Each is one pass without gradients. Returns the
// number of passes. After all forests, call StepLoss::Fix if needs_scores().
int ScoreBefore(const model::Transformer& model, const model::Transformer* reference, const tree::PackedForest& forest,
                std::span<const tree::CallPath> calls, StepLoss& loss, const PassOptions& options);

// Adds the gradient of `loss` over the forest's entries to the parameters' .grad.
PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::CallPath> calls, EntryLoss& loss, const PassOptions& options);

}  // namespace ingot::trainer
