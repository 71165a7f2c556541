// Provides tree attention as torch operators, based on kernels/attention/attention.h.
//
// Registered with the dispatcher under `ingot`:
//
//   tree_attention(q, k, v, scale, *, visible_end, q_offset, positions, block_table, sequences, sinks, window,
//                  soft_cap, plans) -> out
//   tree_attention_forward(the same) -> (out, lse)                                        plain, no autograd
//   tree_attention_backward(grad, q, k, v, out, lse, scale, *, the same) -> (grad_q, grad_k, grad_v, grad_sinks)
//   tree_attention_backward_sum(grad, q, k, v, out, lse, scale, k_sum, v_sum, *, the same without block_table and
//                               sequences) -> (grad_q, grad_sinks)    adds the others to k_sum and v_sum; not on the CPU
//
// tree_attention has an autograd kernel and otherwise calls tree_attention_forward, so a device needs kernels only for
// the last two. CPU and Meta are built in, and libingot_cuda.so adds CUDA. Without a kernel, the operators throw
// c10::Error and never fall back silently. libingot_ops.so makes them available in Python through
// torch.ops.load_library.
//
// q is [rows, heads, head_dim]. k and v are [keys, kv_heads, head_dim] or, with a block table, pages [num_pages,
// page_size, kv_heads, head_dim]. kv_heads divides heads. Supports fp32, fp64, and bf16 with sums in fp32. fp16 is
// converted to fp32. out has q's shape and dtype, and lse [rows, heads] is fp32 (fp64). kernels/attention/attention.h
// defines the arguments. Integer arrays are on the CPU. On CUDA, they may also be on the device, which requires a copy
// to the host and a wait.
//
// Uses the calling thread's at::get_num_threads() threads. All functions check their tensors and throw c10::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <tuple>

#include "kernels/attention/attention.h"
#include "kernels/torch/attention_plans.h"

namespace ingot::kernels {

struct TreeAttentionOptions {
  double scale = 1.0;
  // int32 [keys], or [sequences, at least the maximum number of keys]; undefined = plain causal
  at::Tensor visible_end;
  std::optional<int64_t> q_offset;  // packed index of the first query; nullopt = the queries are the last keys
  at::Tensor positions;             // int32 depths with the shape of visible_end; undefined = the packed index
  at::Tensor block_table;           // int32 [sequences, pages]; undefined = contiguous keys
  // int64 [sequences, 5] with q_begin, q_count, q_offset, key_count, and key_begin of each sequence
  // (AttentionSequence); q_offset must then be nullopt. Undefined = one sequence with all queries and keys (with a
  // block table, q_offset + rows keys).
  at::Tensor sequences;
  at::Tensor sinks;                          // [heads], floating point; undefined = none
  int64_t window = 0;                        // 0 = none
  double soft_cap = 0;                       // cap for the scores (AttentionShape), only on the CPU; 0 = none
  c10::intrusive_ptr<AttentionPlans> plans;  // of the batch; null = every call makes its own
};

// With autograd.
at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const TreeAttentionOptions& options);

// One packed stream. visible_end is int32 [N] or undefined.
at::Tensor TreeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& visible_end,
                         double scale);

// Without autograd. Also returns the log-sum-exp [N, heads].
std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const TreeAttentionOptions& options);
std::tuple<at::Tensor, at::Tensor> TreeAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        const at::Tensor& visible_end, double scale);

// Computes the backward pass for a stream that is processed in pieces, without autograd. The queries are those of the
// last keys. Adds the gradients of k and v to k_sum and v_sum [keys, kv_heads, head_dim] in fp32 (fp64), so keys that
// several pieces see accumulate their gradients without rounding. Returns the gradient of q. If `grad_sinks` is not
// null, it receives the gradient of options.sinks. Block table and sequences must be undefined.
at::Tensor TreeAttentionBackward(const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& out, const at::Tensor& lse, const TreeAttentionOptions& options,
                                 const at::Tensor& k_sum, const at::Tensor& v_sum, at::Tensor* grad_sinks = nullptr);

// Processes one packed stream. Each row is summed in the order of a separate sequence, so it is bit-identical to
// rollout's (law 3). Without autograd. Returns out and the log-sum-exp. `paths` are pieces of root-to-leaf paths that
// contain every query once, in order. Their keys are given by key_runs, and the packed index is the depth. On a device,
// `plans` should be exact, and the host lists each path's keys: the number of paths times the longest one. Uses `paths` only
// during the call. For the gradient, use TreeAttentionBackward on the packed stream, which sums in
// the stream's own order.
std::tuple<at::Tensor, at::Tensor> PathAttentionForward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                        std::span<const AttentionSequence> paths, double scale,
                                                        const at::Tensor& sinks = {}, int64_t window = 0,
                                                        double soft_cap = 0,
                                                        const c10::intrusive_ptr<AttentionPlans>& plans = {});

// Computes attention for rollout, without autograd and without integer tensors. q and out are [rows, heads, head_dim]
// (with the last two dimensions dense), and k_pages and v_pages are contiguous [num_pages, page_size, kv_heads,
// head_dim]. All have the same dtype, fp32, fp64, or bf16, on the CPU or on a device whose library is loaded. Block
// tables, visible_end, and positions are in host memory. Checks that rows and block-table entries are in range.
void PagedTreeAttention(const at::Tensor& q, const at::Tensor& k_pages, const at::Tensor& v_pages,
                        std::span<const AttentionSequence> sequences, double scale, const at::Tensor& out,
                        const at::Tensor& sinks = {}, int64_t window = 0, double soft_cap = 0,
                        const c10::intrusive_ptr<AttentionPlans>& plans = {});

}  // namespace ingot::kernels
