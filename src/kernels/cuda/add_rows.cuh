// Adds rows to the rows of a matrix that their targets name, in the rows' order. A sum is one chain of additions: the
// number that was there, then the first row with this target, then the second one. So the bits are those of a loop on the
// CPU (kernels/torch/add_rows.h), each time and on every GPU. bf16 is summed in fp32 and rounded once.
//
// The host sorts the targets. A warp adds kAddRowsColumns columns of all rows with the same target; the warps of all
// but the first of these rows return at once.
//
// Grid: x = AddRowsArgs::blocks(), a warp for each part of each row.
#pragma once

#include <cassert>

#include "kernels/bfloat16.h"
#include "kernels/cuda/add_rows_args.h"
#include "kernels/cuda/arithmetic.cuh"

namespace ingot::kernels::cuda {

// Returns the end of the rows with the target of row `begin`.
__device__ __forceinline__ int64_t EndOf(const AddRowsArgs& a, int64_t begin, int64_t target) {
  int64_t least = begin + 1, most = a.count;
  if (least == most || a.targets[least] != target) return least;  // true of most rows
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    if (a.targets[middle] == target) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

template <typename T>
__global__ void __launch_bounds__(kAddRowsThreads) AddRowsKernel(const AddRowsArgs a) {
  constexpr int kAtOnce = 4;  // rows whose loads are in flight: additions wait for each other, but loads do not
  constexpr int kEach = kAddRowsColumns / 32;
  const int64_t warp = (static_cast<int64_t>(blockIdx.x) * kAddRowsThreads + threadIdx.x) / 32, parts = a.parts();
  const int64_t begin = warp / parts, first = warp % parts * kAddRowsColumns + threadIdx.x % 32;
  if (begin >= a.count) return;
  const int64_t target = a.targets[begin];
  if (begin > 0 && a.targets[begin - 1] == target) return;
  assert(target >= 0 && target < a.limit);
  const T* const rows = static_cast<const T*>(a.rows) + first;
  T* const to = static_cast<T*>(a.sums) + target * a.width + first;
  bool inside[kEach];
  Accumulator<T> sums[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    inside[i] = first + i * 32 < a.width;
    if (inside[i]) sums[i] = WideOf(to[i * 32]);
  }
  const int64_t end = EndOf(a, begin, target);
  for (int64_t at = begin; at < end; at += kAtOnce) {
    T read[kAtOnce][kEach];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (at + r >= end) break;
      const T* const row = rows + a.order[at + r] * a.width;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (inside[i]) read[r][i] = row[i * 32];
      }
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (at + r >= end) break;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (inside[i]) sums[i] += WideOf(read[r][i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (inside[i]) Round(sums[i], to[i * 32]);
  }
}

}  // namespace ingot::kernels::cuda
