// Declarations shared by the operators' schema and their kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "kernels/torch/attention_plans.h"

namespace ingot::kernels {

using OptionalTensor = std::optional<at::Tensor>;

// The operators' signatures, with arguments in schema order.
using TreeAttentionSignature = at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                                          const OptionalTensor& visible_end, std::optional<int64_t> q_offset,
                                          const OptionalTensor& positions, const OptionalTensor& block_table,
                                          const OptionalTensor& sequences, const OptionalTensor& sinks, int64_t window,
                                          double soft_cap, const OptionalPlans& plans);
using TreeAttentionForwardSignature = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale, const OptionalTensor& visible_end,
    std::optional<int64_t> q_offset, const OptionalTensor& positions, const OptionalTensor& block_table,
    const OptionalTensor& sequences, const OptionalTensor& sinks, int64_t window, double soft_cap,
    const OptionalPlans& plans);
using TreeAttentionBackwardSignature = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& lse, double scale, const OptionalTensor& visible_end, std::optional<int64_t> q_offset,
    const OptionalTensor& positions, const OptionalTensor& block_table, const OptionalTensor& sequences,
    const OptionalTensor& sinks, int64_t window, double soft_cap, const OptionalPlans& plans);

// Adds the gradients of k and v to k_sum and v_sum, and returns those of q and the sinks.
using TreeAttentionBackwardSumSignature = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& lse, double scale, const at::Tensor& k_sum, const at::Tensor& v_sum,
    const OptionalTensor& visible_end, std::optional<int64_t> q_offset, const OptionalTensor& positions,
    const OptionalTensor& sinks, int64_t window, double soft_cap, const OptionalPlans& plans);

// The CPU kernels. They are registered next to the schema, because a linker drops unreferenced objects from a static
// library.
TreeAttentionForwardSignature TreeAttentionForwardCpu;
TreeAttentionBackwardSignature TreeAttentionBackwardCpu;

struct TreeAttentionOptions;

// Returns the gradient of q. Adds the gradients of k and v to k_sum and v_sum [keys, kv_heads, head_dim], fp32 (fp64),
// without rounding.
at::Tensor TreeAttentionBackwardSumCpu(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k,
                                       const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                                       const TreeAttentionOptions& options, std::optional<int64_t> q_offset,
                                       const at::Tensor& k_sum, const at::Tensor& v_sum, at::Tensor* grad_sinks);

}  // namespace ingot::kernels
