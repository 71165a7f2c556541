// Tree attention as torch operators over kernels/attention.h.
//
// Registered with the dispatcher under `ingot`: tree_attention (autograd), tree_attention_forward and
// tree_attention_backward (plain, CPU here; a device library adds its own kernels under its dispatch key). On a device
// without a kernel they throw c10::Error saying so; nothing falls back silently.
//
// Threads: at::get_num_threads() of the calling thread. All functions check their tensors and throw c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <tuple>

#include "kernels/attention.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

// ParallelFor over at::parallel_for: as many threads as at::get_num_threads() says on the calling thread.
ParallelFor TorchParallelFor();

// One packed stream: q [N, heads, head_dim], k and v [N, kv_heads, head_dim], visible_end [N] int32 on the CPU (or
// undefined: plain causal). fp32 or fp64; bf16 and fp16 are computed in fp32. Returns [N, heads, head_dim].
at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible_end,
                         double scale);

// The same without autograd, with the log-sum-exp [N, heads].
std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const at::Tensor& visible_end, double scale);

// Rollout's form, no autograd. q and out [rows, heads, head_dim] (the last two dimensions dense), k_pages and v_pages
// [num_pages, page_size, kv_heads, head_dim] contiguous, all of one dtype, fp32 or fp64. Block tables and visible_end
// are host memory. Checks that rows and block-table entries are in range.
void PagedTreeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                        std::span<const AttentionSequence> sequences, double scale, const at::Tensor& out);

}  // namespace ingot::kernels
