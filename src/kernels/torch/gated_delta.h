// Gated DeltaNet along a tree of rows, over kernels/recurrence/gated_delta.h, in fp32, fp64 or bf16 on the CPU. Throw
// c10::Error on tensors that do not fit, on another device, and on rows that are not in DFS pre-order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/recurrence/gated_delta.h"

namespace ingot::kernels {

// All of one type; kernels/recurrence/gated_delta.h says what they mean.
struct DeltaInput {
  at::Tensor x;                 // [rows, channels]: q, k and v before the convolution
  at::Tensor step, rate;        // [rows, value_heads]
  at::Tensor convolution;       // [channels, 1, kernel]
  at::Tensor step_bias, decay;  // [value_heads]
};

// States of several rows: the recurrence's, fp32 (fp64), and the inputs that the next rows' convolutions see, of the
// input's type.
struct DeltaStates {
  at::Tensor state;  // [slots, value_heads, key_dim, value_dim]
  at::Tensor past;   // [slots, kernel - 1, channels]
  bool defined() const { return state.defined(); }
};
DeltaStates NewDeltaStates(const DeltaShape& shape, int64_t slots, const at::TensorOptions& input);

// Without autograd -> [rows, value_heads, value_dim]. `parents` as PlanRows. `from`: the given states; undefined =
// none. Writes the states after `kept` rows into `into`, which may be `from`.
at::Tensor GatedDeltaForward(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents,
                             const DeltaStates& from, std::span<const KeptState> kept, const DeltaStates& into);

// The gradients of GatedDeltaForward. Those by states are fp32 (fp64) in both halves. by_kept: gradient by `into`, by
// slot; undefined = none. Adds the gradient by `from` to by_from; undefined = not needed.
DeltaInput GatedDeltaBackward(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents,
                              const DeltaStates& from, std::span<const KeptState> kept, const at::Tensor& grad,
                              const DeltaStates& by_kept, const DeltaStates& by_from);

// With autograd, without given states.
at::Tensor GatedDelta(const DeltaShape& shape, const DeltaInput& input, std::span<const int32_t> parents);

// The parents of a packed stream's rows: visible_end int32 [rows] on the CPU; undefined = each row follows the one
// before.
std::vector<int32_t> ParentsOf(const at::Tensor& visible_end, int64_t rows);

}  // namespace ingot::kernels
