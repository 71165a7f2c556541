// The bytes that one layer's forward and backward pass need per row, key, or part. The tensors are those of
// model/block.cc and of the operators that run it:
//
//   Operators::kNative  the autograd functions in kernels/torch/layers.cc and linear.cc, and AttentionBackward in
//                       kernels/attention/attention_backward.cc
//   Operators::kAten    the same files' ATen expressions, which save more for the backward pass, and the attention
//                       operator in kernels/torch/tree_attention_cuda.cc
//
// Plain values. Used only by memory.cc.
#pragma once

#include <cstdint>

#include "kernels/recurrence/gated_delta.h"
#include "model/layer_spec.h"
#include "trainer/pass/memory.h"

namespace ingot::trainer {

struct LayerCosts {
  LayerCosts(const model::LayerSpec& layer, int64_t hidden, int64_t element, int64_t accumulator, Operators operators);

  bool recurrent() const { return shape.value_heads > 0; }
  bool narrow() const { return element < accumulator; }
  // Per branch: the state after it, and the sums of the gradient with respect to it.
  int64_t BranchBytes() const { return recurrent() ? shape.state() * accumulator + shape.past() * element : 0; }
  int64_t BranchSums() const { return recurrent() ? (shape.state() + shape.past()) * accumulator : 0; }
  int64_t ExportBytes() const { return key_copies * keys * element; }  // per row
  int64_t ExportSums() const { return 2 * keys * accumulator; }

  // The recurrence's backward pass over a part's rows, which start from `given` states. Counts the convolution's
  // results, the gradients with respect to them and to the rows' inputs, and the states at the starts of chunks for all
  // heads at once. Subtracts the part of the layer's history that is freed.
  int64_t Recurrence(int64_t rows, int64_t chains, int64_t given) const;
  // The activation's backward pass. Its result is already freed, and the gradient with respect to it exists.
  int64_t Activation(int64_t rows) const { return rows * mlp * 2 * element; }
  // The down projection's backward pass: the gradients of its input and of its weight.
  int64_t Down(int64_t rows) const { return (rows * mlp + down_gradient) * element; }
  // Attention's backward pass over `rows` rows that see `prefix` more rows, minus the layer's history that it frees.
  int64_t Attention(int64_t rows, int64_t prefix) const;
  // The backward pass through norms and rotations to the layer's input.
  int64_t Rotation(int64_t rows, int64_t prefix) const;

  int64_t element, accumulator, hidden;
  Operators operators;
  int64_t mlp, heads, kv_heads, queries, keys, padded_head;
  int64_t key_copies;                             // 1 = keys are also values
  int64_t gradients;                              // elements of the trained matrices
  int64_t down_gradient = 0, first_gradient = 0;  // elements of the widest matrices in the two halves; 0 = frozen
  int64_t history = 0;                            // per row, including the layer's input
  int64_t fixed_history = 0;                      // independent of the number of rows
  int64_t spent = 0;          // per row: the part of the history that the first half of the backward pass frees
  kernels::DeltaShape shape;  // shape of a recurrence; no heads = an attention layer

 private:
  int64_t AttentionBytes(const model::LayerSpec& layer);
  int64_t ExpertBytes(const model::LayerSpec& layer) const;
  int64_t AdapterBytes(const model::LayerSpec& layer) const;
  int64_t RecurrentBytes() const;
  // Returns what ATen's expression for a norm over `width` elements saves in addition to the native operator: the input
  // in the accumulation type, and the scaled input before the weight multiplies it, if the weight is trained.
  int64_t AtenNorm(int64_t width) const;
  void CountAten(const model::LayerSpec& layer, int64_t norms);

  bool trains_norms = false;
};

}  // namespace ingot::trainer
