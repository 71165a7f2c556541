// Implements the operators' CUDA kernels. They run the same checks as on other devices, plan on the host, copy the plan
// once to the device (once per batch, if the caller gives AttentionPlans), and run kernels/cuda. Built only into libingot_cuda.so, which registers them when it is loaded.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>

#include "kernels/cuda/attention_launch.h"
#include "kernels/torch/decode_cuda.h"
#include "kernels/torch/plan_upload.h"
#include "kernels/torch/tree_attention_batch.h"
#include "kernels/torch/tree_attention_checks.h"
#include "kernels/torch/tree_attention_ops.h"
#include "kernels/torch/typed.h"

namespace ingot::kernels {
namespace {

OptionalTensor OnHost(const OptionalTensor& t) {
  return t.has_value() && t->defined() ? OptionalTensor(t->to(at::kCPU)) : std::nullopt;
}

// A plan and its copy on the device of `like`.
struct DevicePlan {
  cuda::AttentionPlan plan;
  at::Tensor memory;
  cuda::PlanView view;

  DevicePlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int64_t page_size,
             bool backward, int block_rows, int64_t most_key_blocks, const at::Tensor& like)
      : plan(shape, sequences, page_size, backward, block_rows, most_key_blocks) {
    TORCH_CHECK(plan.runs().size() < std::numeric_limits<int32_t>::max() &&
                    plan.blocks().size() < std::numeric_limits<int32_t>::max(),
                "tree attention on CUDA: too many tiles for one call");
    memory = UploadPlan(plan, like);
    view = plan.View(static_cast<const std::byte*>(memory.const_data_ptr()));
  }
};

// Returns the batch's plan for a call on the current stream. Another stream has its own, because it would not wait for
// the copy.
std::shared_ptr<const DevicePlan> PlanOf(const OptionalPlans& plans, const AttentionShape& shape,
                                         std::span<const AttentionSequence> sequences, int64_t page_size, bool backward,
                                         int block_rows, int64_t most_key_blocks, const at::Tensor& q,
                                         const at::Tensor& k) {
  const auto make = [&] {
    return std::make_shared<const DevicePlan>(shape, sequences, page_size, backward, block_rows, most_key_blocks, q);
  };
  if (!plans.has_value()) return make();
  const int64_t stream = c10::cuda::getCurrentCUDAStream().id();
  return (*plans)->Get<DevicePlan>({q.device().index(), stream, q.size(0), k.size(0), shape.heads / shape.kv_heads,
                                    shape.window, page_size, backward, block_rows, most_key_blocks},
                                   make);
}

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

// Returns whether the queries of the sequences are all rows, in order.
bool HaveEveryRow(std::span<const AttentionSequence> sequences, int64_t rows) {
  int64_t next = 0;
  for (const AttentionSequence& s : sequences) {
    if (s.q_begin != next) return false;
    next += s.q_count;
  }
  return next == rows;
}

// Moves the sequences that the decode kernels compute behind the others. Returns how many others there are. Depends on
// the type, the shape, and each sequence alone, so that a sequence is computed by the same kernels in every batch.
template <typename T>
size_t PartitionDecodes(const cuda::Shape& shape, const OptionalPlans& plans,
                        std::vector<AttentionSequence>& sequences) {
  if (!cuda::UsesMma<T>(shape) || shape.page_size == 0) return sequences.size();
  const bool exact = plans.has_value() && (*plans)->exact();
  const int64_t most = exact ? std::numeric_limits<int64_t>::max() : cuda::kDecodeQueries;
  const auto decodes = std::stable_partition(sequences.begin(), sequences.end(),
                                             [most](const AttentionSequence& s) { return !cuda::CanDecode(s, most); });
  return static_cast<size_t>(decodes - sequences.begin());
}

std::tuple<at::Tensor, at::Tensor> Forward(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                                           double scale, const OptionalTensor& visible_end,
                                           std::optional<int64_t> q_offset, const OptionalTensor& positions,
                                           const OptionalTensor& block_table, const OptionalTensor& sequences,
                                           const OptionalTensor& sinks_in, int64_t window, double soft_cap,
                                           const OptionalPlans& plans) {
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks_in.value_or(at::Tensor()));
  TORCH_CHECK(soft_cap == 0, "tree attention on CUDA does not support a soft cap: run with device cpu");
  const c10::cuda::CUDAGuard guard(q_in.device());
  Batch batch =
      MakeBatch(q_in, k_in, OnHost(visible_end), q_offset, OnHost(positions), OnHost(block_table), OnHost(sequences));
  const at::Tensor q = Aligned(Computable(q_in)), k = Aligned(Computable(k_in)), v = Aligned(Computable(v_in));
  const at::Tensor sinks = ComputableSinks(sinks_in, q);
  const auto [out, lse] = MakeResults(q, !sequences.has_value() || HaveEveryRow(batch.sequences, q.size(0)));
  if (q.numel() > 0) {
    const cuda::Shape shape = ShapeOf(q, k, scale, window);
    ByType(q, [&](auto zero) {
      using T = decltype(zero);
      using Acc = Accumulator<T>;
      const size_t others = PartitionDecodes<T>(shape, plans, batch.sequences);
      const std::span<const AttentionSequence> all = batch.sequences;
      if constexpr (std::is_same_v<T, BFloat16>) {
        if (others < all.size()) DecodeOnCuda(shape, all.subspan(others), q, k, v, sinks, out, lse, plans);
      }
      if (others == 0) return;
      const auto plan = PlanOf(plans, {shape.heads, shape.kv_heads, shape.head_dim, scale, window}, all.first(others),
                               shape.page_size, false, cuda::ForwardBlockRows<T>(shape), 0, q, k);
      const cuda::ForwardArgs<T> args{shape,      plan->view,       Read<T>(q),    Read<T>(k),
                                      Read<T>(v), Read<Acc>(sinks), Write<T>(out), Write<Acc>(lse)};
      C10_CUDA_CHECK(cuda::LaunchForward(args, std::ssize(plan->plan.blocks()), c10::cuda::getCurrentCUDAStream()));
    });
  }
  return {out.to(q_in.scalar_type()), lse};
}

// Computes the gradients of q (and, if there are any, of the sinks), and adds those of k and v to the sums.
template <typename T>
void RunBackward(const cuda::Shape& shape, const DevicePlan& plan, const at::Tensor& grad, const at::Tensor& q,
                 const at::Tensor& k, const at::Tensor& v, const at::Tensor& out, const at::Tensor& lse,
                 const at::Tensor& sinks, const at::Tensor& grad_q, const at::Tensor& k_sum, const at::Tensor& v_sum,
                 const at::Tensor& grad_sinks) {
  using Acc = Accumulator<T>;
  const at::Tensor delta = at::empty_like(lse);
  at::Tensor partial;
  if (plan.plan.slots() > 0) {
    partial = at::empty({plan.plan.slots(), shape.kv_heads, 2, cuda::kTileKeys, shape.head_dim}, lse.options());
  }
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
                                   Write<Acc>(k_sum),
                                   Write<Acc>(v_sum),
                                   sinks.defined() ? Write<Acc>(grad_sinks) : nullptr,
                                   Write<Acc>(delta),
                                   Write<Acc>(partial),
                                   q.size(0)};
  const cuda::AttentionPlan& p = plan.plan;
  C10_CUDA_CHECK(cuda::LaunchBackward(args,
                                      {std::ssize(p.blocks()), std::ssize(p.key_blocks()), std::ssize(p.key_sums())},
                                      c10::cuda::getCurrentCUDAStream()));
}

void CheckSums(const at::Tensor& k, const at::Tensor& k_sum, const at::Tensor& v_sum) {
  for (const at::Tensor* sum : {&k_sum, &v_sum}) {
    TORCH_CHECK(sum->sizes() == k.sizes() && sum->is_contiguous() && sum->device() == k.device() &&
                    sum->scalar_type() == AccumulatorType(k),
                "tree attention backward: sums must be dense ", AccumulatorType(k), " ", k.sizes(), " on ", k.device());
  }
}

std::tuple<at::Tensor, at::Tensor> BackwardSum(const at::Tensor& grad_in, const at::Tensor& q_in,
                                               const at::Tensor& k_in, const at::Tensor& v_in, const at::Tensor& out_in,
                                               const at::Tensor& lse_in, double scale, const at::Tensor& k_sum,
                                               const at::Tensor& v_sum, const OptionalTensor& visible_end,
                                               std::optional<int64_t> q_offset, const OptionalTensor& positions,
                                               const OptionalTensor& sinks_in, int64_t window, double soft_cap,
                                               const OptionalPlans& plans) {
  CheckNumbers(q_in, k_in, v_in, scale, window, soft_cap, sinks_in.value_or(at::Tensor()));
  TORCH_CHECK(soft_cap == 0, "tree attention on CUDA does not support a soft cap: run with device cpu");
  TORCH_CHECK(q_in.size(0) * q_in.size(1) <= std::numeric_limits<int32_t>::max(),
              "tree attention backward on CUDA: too many rows and heads for one call ", q_in.sizes());
  CheckSums(k_in, k_sum, v_sum);
  const c10::cuda::CUDAGuard guard(q_in.device());
  const Batch batch =
      MakeBatch(q_in, k_in, OnHost(visible_end), q_offset, OnHost(positions), std::nullopt, std::nullopt);
  const at::Tensor q = Aligned(Computable(q_in)), k = Aligned(Computable(k_in)), v = Aligned(Computable(v_in));
  const at::Tensor grad = Aligned(Computable(grad_in)), out = Computable(out_in);
  const at::Tensor lse = lse_in.contiguous(), sinks = ComputableSinks(sinks_in, q);
  CheckGradient(grad, out, lse, q);
  const at::Tensor grad_q = at::empty_like(q);
  const at::Tensor grad_sinks = at::zeros({sinks.defined() ? q.size(1) : 0}, lse.options());
  if (k.numel() > 0) {
    const cuda::Shape shape = ShapeOf(q, k, scale, window);
    ByType(q, [&](auto zero) {
      using T = decltype(zero);
      const auto plan = PlanOf(plans, {shape.heads, shape.kv_heads, shape.head_dim, scale, window}, batch.sequences, 0,
                               true, cuda::kTileRows, cuda::MostKeyBlocks<T>(shape), q, k);
      RunBackward<T>(shape, *plan, grad, q, k, v, out, lse, sinks, grad_q, k_sum, v_sum, grad_sinks);
    });
  }
  return {grad_q.to(q_in.scalar_type()), grad_sinks.to(sinks.defined() ? sinks_in->scalar_type() : q_in.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> Backward(
    const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& lse, double scale, const OptionalTensor& visible_end, std::optional<int64_t> q_offset,
    const OptionalTensor& positions, const OptionalTensor& block_table, const OptionalTensor& sequences,
    const OptionalTensor& sinks, int64_t window, double soft_cap, const OptionalPlans& plans) {
  if (block_table.has_value() || sequences.has_value()) {
    return BackwardOfBatch(Backward, grad, q, k, v, out, lse, scale, OnHost(visible_end), q_offset, OnHost(positions),
                           OnHost(block_table), OnHost(sequences), sinks, window, soft_cap);
  }
  const auto sums = k.options().dtype(AccumulatorType(k));
  const at::Tensor k_sum = at::zeros(k.sizes(), sums), v_sum = at::zeros(k.sizes(), sums);
  const auto [grad_q, grad_sinks] = BackwardSum(grad, q, k, v, out, lse, scale, k_sum, v_sum, visible_end, q_offset,
                                                positions, sinks, window, soft_cap, plans);
  const at::ScalarType type = q.scalar_type();
  return {grad_q, k_sum.to(type), v_sum.to(type), grad_sinks};
}

TORCH_LIBRARY_IMPL(ingot, CUDA, m) {
  m.impl("tree_attention_forward", Forward);
  m.impl("tree_attention_backward", Backward);
  m.impl("tree_attention_backward_sum", BackwardSum);
}

}  // namespace
}  // namespace ingot::kernels
