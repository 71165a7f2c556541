// The backward pass over pages or several sequences, for a device that has one over a stream: each sequence's keys are
// gathered, differentiated as a stream of their own, and their gradients added to the rows they came from, one sequence
// after the other. A sequence's share is in the keys' type, the sum of several in fp32 (fp64). Rollout's form is
// thereby differentiable like the trainer's; it is the trainer's that is made for speed. Throws c10::Error.
#pragma once

#include <functional>
#include <tuple>

#include "kernels/torch/tree_attention_ops.h"

namespace ingot::kernels {

// `stream` is called without block_table and sequences, on the arguments' device. Arrays of integers are on the CPU.
// A query of no sequence has a gradient of zero.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardOfBatch(
    const std::function<TreeAttentionBackwardSignature>& stream, const at::Tensor& grad, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse, double scale,
    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
    const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks, int64_t window);

}  // namespace ingot::kernels
