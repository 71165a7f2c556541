// One part of a cut forest (tree/cut.h) through the layers, forward and later backward.
//
//   embedding --> layer 0 --> layer 1 --> ... --> x        forward: keys and values of the exports go to the path
//                   ^ k, v of the prefix                   backward: their gradients come from it, those of the
//                                                          prefix go to it
//
// The layers are run one at a time, each with an autograd history of its own that ends at its attention: the gradients
// of keys and values are added up outside of it, in fp32 (fp64), over all parts that saw them. With Keep::kInputs a
// layer keeps its input alone and is run again for its backward: the same kernels on the same numbers, so that the
// gradients are the same bit for bit.
//
// Under kExact attention's forward pass walks the part's strands (strand_paths.h), so that log-probs are rollout's
// bits, wherever the forest is cut; the backward pass is the same.
//
// Used by one thread; throws c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/numerics.h"
#include "model/transformer.h"
#include "trainer/layer_weights.h"
#include "trainer/strand_paths.h"
#include "tree/cut.h"
#include "tree/forest.h"

namespace ingot::trainer {

// What a part leaves for later ones, by layer: its exports' keys and values [exports, kv_heads, head_dim], and the
// gradients that came back for them (undefined: none yet). Empty while nothing is exported.
struct PathRows {
  std::vector<at::Tensor> k, v, grad_k, grad_v;
};

class PartRun {
 public:
  enum class Keep {
    kNothing,  // no backward follows
    kInputs,   // every layer's input
    kAll,      // every layer's history
  };

  // `path` has an element per part and outlives this, like the rest. REQUIRES: the parts that this one sees have run.
  // `weights`: null where all are here.
  PartRun(const model::Transformer& model, const tree::PackedForest& forest, std::span<const tree::ForestPart> parts,
          size_t index, std::vector<PathRows>& path, kernels::Numerics numerics = kernels::Numerics::kFast,
          LayerWeights* weights = nullptr);

  // The last layer's output [size, hidden], without history. Fills the part's element of the path unless that is there.
  at::Tensor Forward(Keep keep);

  // After Forward with something kept, and after all parts that see this one: `grad` is the gradient by what Forward
  // gave, apart from what later parts see. Adds to the parameters' .grad and to the path's gradients; nothing is kept
  // any more.
  void Backward(at::Tensor grad);

 private:
  class Attention;
  struct Tape;
  at::Tensor Prefix(int64_t layer, std::vector<at::Tensor> PathRows::* rows, const at::Tensor& own) const;
  Tape RunLayer(int64_t layer, const at::Tensor& x, bool history);
  void AttentionBackward(int64_t layer, Tape& tape);

  const model::Transformer& model_;
  const tree::ForestPart& part_;
  const size_t index_;
  std::vector<PathRows>& path_;
  const double scale_;
  LayerWeights* const weights_;
  std::unique_ptr<const StrandPaths> strands_;  // kExact only
  at::Tensor tokens_, positions_, visible_end_, exports_;
  std::vector<at::Tensor> inputs_;
  std::vector<Tape> tapes_;
};

// A layer's run, with history: y by x and `attended`, q, k and v by x.
struct PartRun::Tape {
  at::Tensor x, q, k, v, attended, lse, y;
};

}  // namespace ingot::trainer
