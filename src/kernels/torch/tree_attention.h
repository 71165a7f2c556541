// Tree attention as torch operators over kernels/attention/attention.h.
//
// Registered with the dispatcher under `ingot`:
//
//   tree_attention(q, k, v, scale, *, visible_end, q_offset, positions, block_table, sequences, sinks, window,
//                  soft_cap) -> out
//   tree_attention_forward(the same) -> (out, lse)                                        plain, no autograd
//   tree_attention_backward(grad, q, k, v, out, lse, scale, *, the same) -> (grad_q, grad_k, grad_v, grad_sinks)
//
// tree_attention has a kernel for autograd and otherwise calls tree_attention_forward. So a device brings kernels for
// the last two only: CPU and Meta are built in, libingot_cuda.so brings CUDA's. Without one they throw c10::Error;
// nothing falls back silently. libingot_ops.so brings them to Python: torch.ops.load_library.
//
// q [rows, heads, head_dim]; k and v [keys, kv_heads, head_dim] or, with a block table, pages [num_pages, page_size,
// kv_heads, head_dim]; kv_heads divides heads. fp32, fp64, and bf16 with sums in fp32; fp16 is widened to fp32. out has
// q's shape and dtype; lse [rows, heads] is fp32 (fp64). kernels/attention/attention.h defines the arguments. Arrays of
// integers are on the CPU. On CUDA they may be on the device, which costs a copy back and a wait.
//
// Threads: at::get_num_threads() of the calling thread. All functions check their tensors and throw c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <tuple>

#include "kernels/attention/attention.h"

namespace ingot::kernels {

struct TreeAttentionOptions {
  double scale = 1.0;
  at::Tensor visible_end;           // int32 [keys], or [sequences, at least the most keys]; undefined = plain causal
  std::optional<int64_t> q_offset;  // packed index of the first query; nullopt = the queries are the last keys
  at::Tensor positions;             // int32, shaped as visible_end: depth; undefined = the packed index
  at::Tensor block_table;           // int32 [sequences, pages]; undefined = contiguous keys
  // int64 [sequences, 5]: q_begin, q_count, q_offset, key_count, key_begin of each (AttentionSequence); the field
  // q_offset is then not given. Undefined = one sequence of all queries and keys (with a block table, of q_offset +
  // rows keys).
  at::Tensor sequences;
  at::Tensor sinks;     // [heads], floating point; undefined = none
  int64_t window = 0;   // 0 = none
  double soft_cap = 0;  // of the scores (AttentionShape); 0 = none. Only on the CPU
};

// With autograd.
at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const TreeAttentionOptions& options);

// One packed stream: visible_end [N] int32 or undefined.
at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible_end,
                         double scale);

// Without autograd, and with the log-sum-exp [N, heads].
std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const TreeAttentionOptions& options);
std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const at::Tensor& visible_end, double scale);

// The backward pass of a stream that is computed in pieces, without autograd. q are the last keys. The gradients of k
// and v are added to k_sum and v_sum [keys, kv_heads, head_dim], fp32 (fp64): keys that several pieces see collect
// their gradients without rounding. Returns the gradient of q; `grad_sinks`, if not null, gets the gradient of
// options.sinks. Block table and sequences must be unset. On a device without its own kernel, each piece's share is
// rounded to k's type before it is added.
at::Tensor TreeAttentionBackward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& out, const at::Tensor& lse, const TreeAttentionOptions& options,
                                 const at::Tensor& k_sum, const at::Tensor& v_sum, at::Tensor* grad_sinks = nullptr);

// One packed stream, each row summed in the order of a separate sequence, and so bit-equal to rollout's (law 3).
// Without autograd; returns out and the log-sum-exp. `paths` are pieces of root-to-leaf paths that hold every query
// once, in order; key_runs names their keys, and the packed index is the depth. CPU only. Keeps `paths` for the time of
// the call. The gradient is the packed stream's (TreeAttentionBackward), which sums in the stream's own order.
std::tuple<at::Tensor, at::Tensor> PathAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        std::span<const AttentionSequence> paths, double scale,
                                                        const at::Tensor& sinks = {}, int64_t window = 0,
                                                        double soft_cap = 0);

// Rollout's form, without autograd and without tensors of integers. q and out [rows, heads, head_dim] (the last two
// dimensions dense), k_pages and v_pages [num_pages, page_size, kv_heads, head_dim] contiguous. All have one dtype,
// fp32, fp64 or bf16, on the CPU or on a device whose library is loaded. Block tables, visible_end and positions are
// host memory. Checks that rows and block-table entries are in range.
void PagedTreeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                        std::span<const AttentionSequence> sequences, double scale, const at::Tensor& out,
                        const at::Tensor& sinks = {}, int64_t window = 0, double soft_cap = 0);

}  // namespace ingot::kernels
