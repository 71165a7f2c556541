// Arguments for the CUDA attention kernels: plain values and device pointers. Shapes and meanings are defined in
// kernels/attention/attention.h.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/cuda/attention_plan.h"

namespace ingot::kernels::cuda {

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

// One sequence with contiguous keys. All arrays are dense.
template <typename T>
struct BackwardArgs {
  using Acc = Accumulator<T>;
  Shape shape;
  PlanView plan;
  const T *q, *k, *v, *out, *grad_out;
  const Acc *sinks, *lse;
  T *grad_q, *grad_k, *grad_v;
  Acc* grad_sinks;  // [heads] or null
  Acc* delta;       // [rows, heads], scratch: dot product of a row's output and output gradient
  int64_t rows;     // number of queries
};

}  // namespace ingot::kernels::cuda
