// The CUDA attention kernels on emulated_cuda.h, called as kernels/torch/tree_attention_cuda.cc calls them on a card.
#pragma once

#include "kernels/cuda/emulated_cuda.h"
// The kernels come after the declarations of the language they are written in.
#include "kernels/attention/attention_stream.h"
#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention_forward.cuh"

namespace ingot::kernels::testing {

inline emulated_cuda::Index Grid(size_t blocks, const cuda::Shape& s) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(s.kv_heads),
          static_cast<unsigned>((s.head_dim + cuda::kOutDims - 1) / cuda::kOutDims)};
}

// The plan as it lies on a device, and the shape in the kernels' form.
struct EmulatedCall {
  cuda::AttentionPlan plan;
  std::vector<uint64_t> memory;  // aligned
  cuda::PlanView view;
  cuda::Shape shape;

  EmulatedCall(const AttentionShape& s, std::span<const AttentionSequence> sequences, int64_t page_size, bool backward)
      : plan(s, sequences, page_size, backward), memory(plan.packed_bytes() / 8 + 2) {
    auto* base = reinterpret_cast<std::byte*>(memory.data());
    base += (16 - reinterpret_cast<uintptr_t>(base) % 16) % 16;
    plan.Pack(base);
    view = plan.View(base);
    const int64_t q_stride = s.heads * s.head_dim, k_stride = s.kv_heads * s.head_dim;
    shape = {s.heads,  s.kv_heads, s.head_dim, s.heads / s.kv_heads, s.window, page_size, q_stride,
             k_stride, k_stride,   s.scale};
  }
};

template <typename T>
void EmulatedForward(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                     const AttentionForwardArgs<T>& args, uint64_t seed) {
  const EmulatedCall call(shape, sequences, args.page_size, false);
  cuda::ForwardArgs<T> a{call.shape, call.view, args.q, args.k, args.v, args.sinks, args.out, args.lse};
  if (args.q_row_stride != 0) a.shape.q_row_stride = args.q_row_stride;
  if (args.k_row_stride != 0) a.shape.k_row_stride = args.k_row_stride;
  if (args.v_row_stride != 0) a.shape.v_row_stride = args.v_row_stride;
  emulated_cuda::Launch<const cuda::ForwardArgs<T>>(cuda::ForwardKernel<T>, Grid(call.plan.blocks().size(), a.shape),
                                                    cuda::kThreads, seed, a);
}

template <typename T>
void EmulatedBackward(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, uint64_t seed) {
  using Args = const cuda::BackwardArgs<T>;
  AttentionSequence sequence;
  sequence.q_count = args.rows;
  sequence.key_count = args.keys;
  sequence.q_offset = args.q_offset;
  sequence.visible_end = args.visible_end;
  sequence.positions = args.positions;
  const EmulatedCall call(shape, {&sequence, 1}, 0, true);
  std::vector<Accumulator<T>> delta(args.rows * shape.heads, 7);
  std::vector<Accumulator<T>> sum_k(args.keys * shape.kv_heads * shape.head_dim), sum_v(sum_k.size());
  Args a{call.shape, call.view,   args.q,       args.k,       args.v,          args.out,     args.grad_out, args.sinks,
         args.lse,   args.grad_q, sum_k.data(), sum_v.data(), args.grad_sinks, delta.data(), nullptr,       args.rows};
  const auto entries = static_cast<unsigned>(args.rows * shape.heads), per_block = 16u;
  emulated_cuda::Launch<Args>(cuda::DeltaKernel<T>, {(entries + per_block - 1) / per_block, 1, 1}, cuda::kThreads, seed,
                              a);
  emulated_cuda::Launch<Args>(cuda::GradQKernel<T>, Grid(call.plan.blocks().size(), a.shape), cuda::kThreads, seed, a);
  emulated_cuda::Launch<Args>(cuda::GradKeysKernel<T>, Grid(call.plan.key_blocks().size(), a.shape), cuda::kThreads,
                              seed, a);
  if (args.grad_sinks != nullptr) {
    emulated_cuda::Launch<Args>(cuda::GradSinksKernel<T>, {static_cast<unsigned>(shape.heads), 1, 1}, cuda::kThreads,
                                seed, a);
  }
  std::transform(sum_k.begin(), sum_k.end(), args.grad_k, Narrow<T>);
  std::transform(sum_v.begin(), sum_v.end(), args.grad_v, Narrow<T>);
}

}  // namespace ingot::kernels::testing
