// Computes the backward pass over pages or several sequences on devices that support only a single stream. Each
// sequence's keys are gathered and differentiated as a separate stream. Their gradients are added to the original rows,
// one sequence after another. A sequence's contribution has the keys' type, and the sum of several is fp32 (fp64). So
// rollout's calls are also differentiable, although only the trainer's are fast. Throws c10::Error.
#pragma once

#include <functional>
#include <tuple>

#include "kernels/torch/tree_attention_ops.h"

namespace ingot::kernels {

// `stream` is called without block_table and sequences, on the arguments' device. Integer arrays are on the CPU.
// Queries that do not belong to a sequence have a zero gradient.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> BackwardOfBatch(
    const std::function<TreeAttentionBackwardSignature>& stream, const at::Tensor& grad, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse, double scale,
    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
    const OptionalTensor& block_table, const OptionalTensor& sequences, const OptionalTensor& sinks, int64_t window,
    double soft_cap);

}  // namespace ingot::kernels
