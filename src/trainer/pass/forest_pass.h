// A pass of the model over a packed forest: the log-probs of its loss entries, and the gradient of a loss over them.
//
//   packed tokens --Hidden, tree attention--> rows that predict an entry --logits, log-softmax--> one number per entry
//
// The matrix of logits never exists whole (head_pass.h). The loss gives its derivative by each entry's log-prob; the
// derivatives of entries that share a row are added up.
//
// A forest of more rows than `part_tokens` is cut (tree/cut.h). Its parts run one after the other, and pass on keys,
// values and their gradients (part_run.h). A part runs backward as soon as no later part sees it. Up to rounding, the
// result equals the uncut forest's.
//
// A part that later parts see waits for them. Meanwhile it holds everything that its backward pass needs. With
// recompute_prefix it holds only the keys and values of its exports, and its forward pass runs twice.
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
#include "trainer/objectives/step_loss.h"
#include "trainer/options.h"
#include "trainer/pass/expert_record.h"
#include "trainer/pass/head_pass.h"
#include "trainer/pass/layer_weights.h"
#include "trainer/pass/recorded_routes.h"
#include "tree/forest.h"

namespace ingot::trainer {

struct PassOptions {
  int64_t logits_chunk_elements = int64_t{1} << 24;
  int64_t part_tokens = std::numeric_limits<int64_t>::max();  // greatest number of rows of a part
  bool checkpoint_layers = false;   // hold only each layer's input and run the layer again: PartRun's kInputs
  bool recompute_prefix = false;    // run a part that later parts see again, instead of holding its layers
  PolicyReader read_policy;         // sees the policies of the rows that entries read from; may be empty
  std::function<void()> part_done;  // called after each part's gradient was added to .grad; may be empty
  kernels::Numerics numerics = kernels::Numerics::kFast;  // of attention's forward pass: PartRun
  ExpertRecord* experts = nullptr;         // of passes with a gradient; null = count nothing, add no term
  const RecordedRoutes* routes = nullptr;  // of the forest; null = not recorded
  LayerWeights* weights = nullptr;         // of the trained model, where ranks divide them; null = all are here
};

// The trainer's options of its passes.
PassOptions PassOptionsOf(const TrainerOptions& options);

// Merges all calls of a batch across its groups, in the order of OrderChainFirst; the entries are the tokens that bear
// loss. Errors as PackForest.
absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch);
// The same for some of its calls, in the order given.
absl::StatusOr<tree::PackedForest> PackBatch(const PreparedBatch& batch, std::span<const int32_t> calls);

struct PassResult : HeadResult {
  int64_t parts = 0;
  int64_t head_rows = 0;              // unique (row, temperature) pairs
  int64_t repeated_rows = 0;          // rows that recompute_prefix ran forward a second time
  int64_t repeated_pairs = 0;         // their visible (query, key) pairs
  int64_t repeated_window_pairs = 0;  // those within the model's window
};

// Only log-probs and entropies: no gradient is computed, and `model` does not change.
PassResult ScoreForest(const model::Transformer& model, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, const PassOptions& options);

// Records in `loss` the log-probs that it needs before a gradient: of `reference` if it needs_reference() (else
// `reference` may be null), and of the model if it needs_scores(). Each is one pass without gradients; returns the
// number of passes. After all forests call StepLoss::Fix on a loss that needs_scores().
int ScoreBefore(const model::Transformer& model, const model::Transformer* reference, const tree::PackedForest& forest,
                std::span<const tree::CallPath> calls, StepLoss& loss, const PassOptions& options);

// Adds the gradient of `loss` over the forest's entries to the parameters' .grad.
PassResult AccumulateGradients(const model::Transformer& model, const tree::PackedForest& forest,
                               std::span<const tree::CallPath> calls, EntryLoss& loss, const PassOptions& options);

}  // namespace ingot::trainer
