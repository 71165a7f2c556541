// Runs one part of a split forest (tree/cut.h) through the layers, first forward and later backward.
//
//   forward    embedding --> layer 0 --> layer 1 --> ... --> x
//                              ^ prefix k, v    | exports' k, v
//                              |                v
//                            path: k, v, grad_k, grad_v of every part
//                              ^                |
//                              | prefix grads   v exports' grads
//   backward   embedding <-- layer 0 <-- layer 1 <-- ... <-- grad
//
// Layers run one at a time. Each has its own autograd history, which ends at its attention. The gradients of keys and
// values are accumulated outside of that history, in fp32 (fp64), over all parts that read them. With History::kInputs,
// a layer keeps only its input and runs again for its backward pass. The same kernels on the same numbers give
// bit-identical gradients.
//
// With kExact, attention's forward pass follows the part's strands (strand_paths.h). The log-probs are then
// bit-identical to rollout's, no matter where the forest is split. The backward pass is the same.
//
// A recurrent layer works the same way: its history ends where an attention layer has q, k, and v. Instead of keys and
// values, a part exports the states after its branches (tree/cut.h) and receives their gradients.
//
// Used by one thread. Throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/work.h"
#include "kernels/numerics.h"
#include "kernels/torch/gated_delta.h"
#include "kernels/torch/tree_attention.h"
#include "model/transformer.h"
#include "trainer/pass/expert_record.h"
#include "trainer/pass/layer_weights.h"
#include "trainer/pass/recorded_routes.h"
#include "trainer/pass/strand_paths.h"
#include "tree/cut.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The tensors that a part exports to later parts, one per layer: keys and values of its exports [exports, kv_heads,
// head_dim], and the sums of their gradients (undefined = no gradient yet). Empty = the part exports nothing.
struct PathRows {
  std::vector<at::Tensor> k, v, grad_k, grad_v;
  std::vector<kernels::DeltaStates> states, grad_states;  // recurrent layers' states, by branch
};

class PartRun {
 public:
  enum class History {
    kNone,    // nothing; no backward pass follows
    kInputs,  // every layer's input
    kAll,     // every layer's history
  };

  // `path` has one element per part. The arguments must outlive this object. REQUIRES: the parts that this part reads
  // have run. `weights`: null = all weights are in memory. `experts` counts runs with history; null = count nothing.
  // `routes`: null = not recorded.
  PartRun(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::ForestPart> parts,
          size_t index, std::vector<PathRows>& path, kernels::Numerics numerics = kernels::Numerics::kFast,
          LayerWeights* weights = nullptr, ExpertRecord* experts = nullptr, const RecordedRoutes* routes = nullptr);

  // Returns the last layer's output [size, hidden], without history. Fills the part's element of the path, unless it is
  // filled. `shown` advances by the part's rows, layer by layer, here and in Backward; null = not reported.
  at::Tensor Forward(History history, base::WorkPart* shown = nullptr);

  // REQUIRES: Forward was called with kInputs or kAll, and all parts that see this one have run backward. `grad` [size,
  // hidden] is the gradient with respect to Forward's result, without later parts' share. Adds to the parameters' .grad
  // and to the path's gradients. Frees everything that Forward held.
  void Backward(at::Tensor grad, base::WorkPart* shown = nullptr);

 private:
  class Attention;
  struct Tape;
  at::Tensor Prefix(int64_t layer, std::vector<at::Tensor> PathRows::* rows, const at::Tensor& own) const;
  Tape RunLayer(int64_t layer, const at::Tensor& x, bool history);
  void AttentionBackward(int64_t layer, Tape& tape);
  void RecurrenceBackward(int64_t layer, Tape& tape);
  // Returns the initial states for this part's rows, by crossing.
  kernels::DeltaStates Given(int64_t layer, const kernels::DeltaShape& shape, const at::Tensor& x) const;
  kernels::TreeAttentionOptions OptionsOf(const model::AttentionSpec& spec, const at::Tensor& sinks) const;
  // Reports that one more layer is done, after `before` others.
  void ShowLayer(int64_t before, base::WorkPart* shown) const;

  const model::Transformer& model_;
  const tree::ForestPart& part_;
  const size_t index_;
  std::vector<PathRows>& path_;
  LayerWeights* const weights_;
  ExpertRecord* const experts_;
  const RecordedRoutes* const routes_;
  std::unique_ptr<const StrandPaths> strands_;  // kExact only
  at::Tensor tokens_, positions_;               // [size]
  at::Tensor visible_end_;                      // [prefix + size], on the CPU
  at::Tensor depths_;   // depths of all keys, [prefix + size], on the CPU; undefined = no layer has a window
  at::Tensor exports_;  // [exports], rows of this part
  // Of this part's keys and queries, for all layers, forward and backward.
  const c10::intrusive_ptr<kernels::AttentionPlans> plans_ = c10::make_intrusive<kernels::AttentionPlans>();
  const c10::intrusive_ptr<kernels::AttentionPlans> path_plans_ =
      c10::make_intrusive<kernels::AttentionPlans>(/*exact=*/true);  // of strands_
  std::vector<int32_t> parents_;          // parents of rows, for recurrences; empty = no layer is recurrent
  std::vector<kernels::KeptState> kept_;  // the branches
  std::vector<at::Tensor> inputs_;        // kInputs: per layer [size, hidden]
  std::vector<Tape> tapes_;               // kAll: per layer
};

// A layer's run with history: from x to q, k, v, and the gate, and from x, `attended`, and `passed` to y. x and y are
// [rows, hidden]. q, k, v, and attended are [rows, heads, head_dim].
struct PartRun::Tape {
  at::Tensor x, q, k, v, attended, lse, y;
  at::Tensor sinks;               // undefined = the family has none
  at::Tensor gate, passed;        // PassThrough's input and result; undefined = the layer has none
  kernels::DeltaInput recurrent;  // replaces q, k, and v; undefined = an attention layer
  at::Tensor balance_loss;        // scalar; undefined = none
};

}  // namespace ingot::trainer
