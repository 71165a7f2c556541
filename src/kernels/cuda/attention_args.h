// Arguments for the CUDA attention kernels: plain values and device pointers. Shapes and meanings are defined in
// kernels/attention/attention.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/bfloat16.h"
#include "kernels/cuda/attention_plan.h"

namespace ingot::kernels::cuda {

constexpr double kLog2E = 1.44269504088896340736, kLn2 = 0.69314718055994530942;

struct Shape {
  int64_t heads, kv_heads, head_dim, group;  // group = heads / kv_heads
  int64_t window;
  int64_t page_size;  // 0 = contiguous keys
  int64_t q_row_stride, k_row_stride, v_row_stride;
  double scale;
};

template <typename T>
struct ForwardArgs {
  using Acc = Accumulator<T>;
  Shape shape;
  PlanView plan;
  const T *q, *k, *v;
  const Acc* sinks;  // [heads] or null
  T* out;            // [rows, heads, head_dim]
  Acc* lse;          // [rows, heads] or null
};

// The scale of the scores in base 2, as a factor above 0 and a sign (-1, 0, or 1). So the largest scaled score is the
// scaled largest score.
struct ForwardMmaArgs : ForwardArgs<BFloat16> {
  float factor, sign;
};

inline ForwardMmaArgs MakeMmaArgs(const ForwardArgs<BFloat16>& args) {
  const auto scale = static_cast<float>(args.shape.scale * kLog2E);
  const float sign = scale > 0 ? 1.0f : scale < 0 ? -1.0f : 0.0f;
  return {args, scale == 0 ? 1.0f : scale * sign, sign};
}

// Returns whether LaunchForward<T> uses the tensor cores: bf16, and heads whose rows are at most 128 elements in pieces
// of 16 bytes. Depends on nothing else, so a row is computed by the same kernel in every batch.
template <typename T>
constexpr bool UsesMma(const Shape& s) {
  return std::is_same_v<T, BFloat16> && s.head_dim <= 128 && s.head_dim % 8 == 0 && s.q_row_stride % 8 == 0 &&
         s.k_row_stride % 8 == 0 && s.v_row_stride % 8 == 0;
}

// Returns the rows per block that LaunchForward<T> expects of its plan.
template <typename T>
constexpr int ForwardBlockRows(const Shape& s) {
  return UsesMma<T>(s) ? kMmaRows : kTileRows;
}

// Returns the most row blocks per key block that LaunchBackward<T> expects of its plan (AttentionPlan).
template <typename T>
constexpr int64_t MostKeyBlocks(const Shape& s) {
  return UsesMma<T>(s) ? kMostKeyBlocks : 0;
}

// One sequence with contiguous keys. All arrays are dense.
template <typename T>
struct BackwardArgs {
  using Acc = Accumulator<T>;
  Shape shape;
  PlanView plan;
  const T *q, *k, *v, *out, *grad_out;
  const Acc *sinks, *lse;
  T* grad_q;
  Acc *sum_k, *sum_v;  // the gradients of k and v are added: keys that several calls see accumulate without rounding
  Acc* grad_sinks;     // [heads] or null
  Acc* delta;          // [rows, heads], scratch: dot product of a row's output and output gradient
  Acc* partial;        // [plan.slots(), kv_heads, 2 (k, v), kTileKeys, head_dim], scratch; null = no slots
  int64_t rows;        // number of queries
};

}  // namespace ingot::kernels::cuda
