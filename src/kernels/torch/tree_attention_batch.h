// The backward pass over pages or several sequences, for a device that has one over a single stream. Each sequence's
// keys are gathered and differentiated as a separate stream. Their gradients are added to their original rows, one
// sequence after the other. A sequence's share has the keys' type; the sum of several is fp32 (fp64). So rollout's form
// is differentiable too, though only the trainer's form is fast. Throws c10::Error.
#pragma once

#include <functional>
#include <tuple>

#include "kernels/torch/tree_attention_ops.h"

namespace ingot::kernels {

// `stream` is called without block_table and sequences, on the arguments' device. Arrays of integers are on the CPU. A
// query that belongs to no sequence has a gradient of zero.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardOfBatch(
    const std::function<TreeAttentionBackwardSignature>& stream, const at::Tensor& grad, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse, double scale,
    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
    const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks, int64_t window,
    double soft_cap);

}  // namespace ingot::kernels
