// Arguments for the CUDA kernel that writes keys and values into pages (pages.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/cuda/row_sizes.h"

namespace ingot::kernels::cuda {

inline constexpr int kPagesThreads = 256;
inline constexpr int kPagesWarps = kPagesThreads / 32;

// Writes the keys and values of rows to their slots. With tables, queries and keys are rotated first, after a norm over
// depth if there is a weight (layers_args.h: HeadArgs). All arrays are dense.
template <typename T>
struct PagesArgs {
  int64_t rows, heads, kv_heads, depth;  // heads: of queries; 0 = no queries
  const T* q;                            // [rows, heads, depth]
  const T *k, *v;                        // [rows, kv_heads, depth]; v null = values are not written
  const T *q_weight, *k_weight;          // [depth]; null = no norm
  Accumulator<T> eps;
  const T *cos, *sin;       // [positions, depth / 2]; null = keys are written as they are, and there are no queries
  const int64_t* position;  // [rows]
  int64_t positions;
  T* y;                  // as q
  const int64_t* slot;   // [rows]; -1 = the row is not written
  int64_t slots;         // of the pages
  T *k_pages, *v_pages;  // [slots, kv_heads, depth]

  INGOT_HOST_DEVICE int64_t heads_of_row() const { return heads + kv_heads * (v == nullptr ? 1 : 2); }
  int64_t blocks() const { return Ceil(rows * heads_of_row(), kPagesWarps); }
};

}  // namespace ingot::kernels::cuda
