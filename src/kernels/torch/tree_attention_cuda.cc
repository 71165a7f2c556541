// Implements the operators' CUDA kernels. They run the same checks as on other devices, plan on the host, copy the plan
// once to the device, and run kernels/cuda. Built only into libingot_cuda.so, which registers them when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstddef>
#include <limits>

#include "kernels/cuda/attention_launch.h"
#include "kernels/torch/tree_attention_batch.h"
#include "kernels/torch/tree_attention_checks.h"
#include "kernels/torch/tree_attention_ops.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

OptionalTensor OnHost(const OptionalTensor& t) {
  return t.has_value() && t->defined() ? OptionalTensor(t->to(at::kCPU)) : std::nullopt;
}

// A plan and its copy on the device of `like`. The copy is queued on the current stream before the kernels. The memory
// returns to a stream-aware allocator.
struct DevicePlan {
  cuda::AttentionPlan plan;
  at::Tensor memory;
  cuda::PlanView view;

  DevicePlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int64_t page_size,
             bool backward, int block_rows, const at::Tensor& like)
      : plan(shape, sequences, page_size, backward, block_rows) {
    TORCH_CHECK(plan.runs().size() < std::numeric_limits<int32_t>::max() &&
                    plan.blocks().size() < std::numeric_limits<int32_t>::max(),
                "tree attention on CUDA: too many tiles for one call");
    const auto bytes = static_cast<int64_t>(plan.packed_bytes());
    const at::Tensor host = at::empty({bytes}, at::dtype(at::kByte).pinned_memory(true));
    plan.Pack(static_cast<std::byte*>(host.mutable_data_ptr()));
    memory = host.to(like.device(), /*non_blocking=*/true);
    view = plan.View(static_cast<const std::byte*>(memory.const_data_ptr()));
  }
};

// Returns the tensor, or a copy if its memory is not aligned for the tensor cores' kernel.
at::Tensor Aligned(const at::Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0 ? t : t.clone();
}

cuda::Shape ShapeOf(const at::Tensor& q, const at::Tensor& k, double scale, int64_t window) {
  const int64_t heads = q.size(1), kv_heads = k.size(-2), head_dim = q.size(2);
  constexpr int64_t kMaxKvHeads = 65535, kMaxColumns = int64_t{8} << 20;  // per grid
  TORCH_CHECK(kv_heads <= kMaxKvHeads && head_dim <= kMaxColumns, "tree attention on CUDA supports at most ",
              kMaxKvHeads, " kv heads and ", kMaxColumns, " columns per head, got ", k.sizes());
  return {heads,
          kv_heads,
          head_dim,
          heads / kv_heads,
          window,
          k.dim() == 4 ? k.size(1) : 0,
          heads * head_dim,
          kv_heads * head_dim,
          kv_heads * head_dim,
          scale};
}

std::tuple<at::Tensor, at::Tensor> Forward(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                                           double scale, const OptionalTensor& visible_end,
                                           std::optional<int64_t> q_offset, const OptionalTensor& positions,
                                           const OptionalTensor& block_table, const OptionalTensor& sequences,
                                           const OptionalTensor& sinks_in, int64_t window, double soft_cap) {
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks_in.value_or(at::Tensor()));
  TORCH_CHECK(soft_cap == 0, "tree attention on CUDA does not support a soft cap: run with device cpu");
  const c10::cuda::CUDAGuard guard(q_in.device());
  const Batch batch =
      MakeBatch(q_in, k_in, OnHost(visible_end), q_offset, OnHost(positions), OnHost(block_table), OnHost(sequences));
  const at::Tensor q = Aligned(Computable(q_in)), k = Aligned(Computable(k_in)), v = Aligned(Computable(v_in));
  const at::Tensor sinks = ComputableSinks(sinks_in, q);
  const auto [out, lse] = MakeResults(q, !sequences.has_value());
  if (q.numel() > 0) {
    const cuda::Shape shape = ShapeOf(q, k, scale, window);
    ByType(q, [&](auto zero) {
      using T = decltype(zero);
      using Acc = Accumulator<T>;
      const DevicePlan plan({shape.heads, shape.kv_heads, shape.head_dim, scale, window}, batch.sequences,
                            shape.page_size, false, cuda::ForwardBlockRows<T>(shape), q);
      const cuda::ForwardArgs<T> args{shape,      plan.view,        Read<T>(q),    Read<T>(k),
                                      Read<T>(v), Read<Acc>(sinks), Write<T>(out), Write<Acc>(lse)};
      C10_CUDA_CHECK(cuda::LaunchForward(args, static_cast<int64_t>(plan.plan.blocks().size()),
                                         c10::cuda::getCurrentCUDAStream()));
    });
  }
  return {out.to(q_in.scalar_type()), lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> Backward(
    const at::Tensor& grad_in, const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
    const at::Tensor& out_in, const at::Tensor& lse_in, double scale, const OptionalTensor& visible_end,
    std::optional<int64_t> q_offset, const OptionalTensor& positions, const OptionalTensor& block_table,
    const OptionalTensor& sequences, const OptionalTensor& sinks_in, int64_t window, double soft_cap) {
  if (block_table.has_value() || sequences.has_value()) {
    return BackwardOfBatch(Backward, grad_in, q_in, k_in, v_in, out_in, lse_in, scale, OnHost(visible_end), q_offset,
                           OnHost(positions), OnHost(block_table), OnHost(sequences), sinks_in, window, soft_cap);
  }
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks_in.value_or(at::Tensor()));
  TORCH_CHECK(soft_cap == 0, "tree attention on CUDA does not support a soft cap: run with device cpu");
  const c10::cuda::CUDAGuard guard(q_in.device());
  const Batch batch =
      MakeBatch(q_in, k_in, OnHost(visible_end), q_offset, OnHost(positions), std::nullopt, std::nullopt);
  const at::Tensor q = Computable(q_in), k = Computable(k_in), v = Computable(v_in), out = Computable(out_in);
  const at::Tensor grad = Computable(grad_in), lse = lse_in.contiguous(), sinks = ComputableSinks(sinks_in, q);
  CheckGradient(grad, out, lse, q);
  const at::Tensor grad_q = at::empty_like(q), grad_k = at::empty_like(k), grad_v = at::empty_like(v);
  const at::Tensor grad_sinks = at::zeros({sinks.defined() ? q.size(1) : 0}, lse.options());
  if (k.numel() > 0) {
    const cuda::Shape shape = ShapeOf(q, k, scale, window);
    const DevicePlan plan({shape.heads, shape.kv_heads, shape.head_dim, scale, window}, batch.sequences, 0, true,
                          cuda::kTileRows, q);
    const at::Tensor delta = at::empty_like(lse);
    ByType(q, [&](auto zero) {
      using T = decltype(zero);
      using Acc = Accumulator<T>;
      const cuda::BackwardArgs<T> args{shape,
                                       plan.view,
                                       Read<T>(q),
                                       Read<T>(k),
                                       Read<T>(v),
                                       Read<T>(out),
                                       Read<T>(grad),
                                       Read<Acc>(sinks),
                                       Read<Acc>(lse),
                                       Write<T>(grad_q),
                                       Write<T>(grad_k),
                                       Write<T>(grad_v),
                                       sinks.defined() ? Write<Acc>(grad_sinks) : nullptr,
                                       Write<Acc>(delta),
                                       q.size(0)};
      C10_CUDA_CHECK(cuda::LaunchBackward(args, static_cast<int64_t>(plan.plan.blocks().size()),
                                          static_cast<int64_t>(plan.plan.key_blocks().size()),
                                          c10::cuda::getCurrentCUDAStream()));
    });
  }
  const at::ScalarType type = q_in.scalar_type();
  return {grad_q.to(type), grad_k.to(type), grad_v.to(type),
          grad_sinks.to(sinks.defined() ? sinks_in->scalar_type() : type)};
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("tree_attention_forward", Forward);
  m.impl("tree_attention_backward", Backward);
}

}  // namespace
}  // namespace ingot::kernels
