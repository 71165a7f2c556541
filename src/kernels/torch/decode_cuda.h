// Attention for decode on CUDA (kernels/cuda/decode_attention.cuh) on tensors. Part of libingot_cuda.so.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kernels/attention/attention.h"
#include "kernels/cuda/decode_args.h"
#include "kernels/torch/attention_plans.h"

namespace ingot::kernels {

// Writes the rows of out [rows, heads, head_dim] and lse [rows, heads] that belong to the sequences. q, k, v, and out are
// bf16 and 16-byte aligned. Sinks may be undefined. `plans` keeps the plan for the batch's other layers. Queued on the current stream. Throws c10::Error if a launch fails.
// REQUIRES: cuda::CanDecode(every sequence), cuda::UsesMma<BFloat16>(shape), and pages.
void DecodeOnCuda(const cuda::Shape& shape, std::span<const AttentionSequence> sequences, const at::Tensor& q,
                  const at::Tensor& k, const at::Tensor& v, const at::Tensor& sinks, const at::Tensor& out,
                  const at::Tensor& lse, const OptionalPlans& plans);

}  // namespace ingot::kernels
