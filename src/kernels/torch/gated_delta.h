// Computes Gated DeltaNet along a tree of rows, based on kernels/recurrence/gated_delta.h, in fp32, fp64, or bf16 on
// the CPU. Throws c10::Error if tensors do not match or are on another device, or if rows are not in DFS pre-order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/recurrence/gated_delta.h"

namespace ingot::kernels {

// All tensors have the same type. kernels/recurrence/gated_delta.h defines their meaning.
struct DeltaInput {
  at::Tensor x;                 // [rows, channels]: q, k, and v before the convolution
  at::Tensor step, rate;        // [rows, value_heads]
  at::Tensor convolution;       // [channels, 1, kernel]
  at::Tensor step_bias, decay;  // [value_heads]
};

// The states of several rows: recurrence states in fp32 (fp64), and the inputs that later rows' convolutions need, in
// the input's type.
struct DeltaStates {
  at::Tensor state;  // [slots, value_heads, key_dim, value_dim]
  at::Tensor past;   // [slots, kernel - 1, channels]
  bool defined() const { return state.defined(); }
};
DeltaStates NewDeltaStates(const DeltaShape& shape, int64_t slots, const at::TensorOptions& input);

// Returns [rows, value_heads, value_dim] without autograd. `parents` is as in PlanRows. `from` has the given states;
// undefined = none. Writes the states after the `kept` rows to `into`, which may be `from`.
at::Tensor GatedDeltaForward(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents,
                             const DeltaStates& from, std::span<const KeptState> kept, const DeltaStates& into);

// Returns the gradients of GatedDeltaForward. Gradients with respect to states are fp32 (fp64) in both parts. by_kept
// is the gradient with respect to `into`, by slot; undefined = none. Adds the gradient with respect to `from` to
// by_from; undefined = not needed.
DeltaInput GatedDeltaBackward(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents,
                              const DeltaStates& from, std::span<const KeptState> kept, const at::Tensor& grad,
                              const DeltaStates& by_kept, const DeltaStates& by_from);

// Same as GatedDeltaForward, but with autograd and without given states.
at::Tensor GatedDelta(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents);

// Returns the parents of a packed stream's rows. visible_end is int32 [rows] on the CPU; undefined = each row follows
// the previous one.
std::vector<int32_t> ParentsOf(const at::Tensor& visible_end, int64_t rows);

}  // namespace ingot::kernels
