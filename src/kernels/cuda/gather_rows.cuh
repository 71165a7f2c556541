// Gathers rows of a matrix, as the lookup of an embedding. A block copies a row, with every bit.
//
// Grid: x = row. Bound by memory: reads and writes each number once.
#pragma once

#include <cassert>

#include "kernels/cuda/gather_rows_launch.h"
#include "kernels/cuda/row_values.cuh"

namespace ingot::kernels::cuda {

template <typename T>
__global__ void __launch_bounds__(kGatherRowsThreads) GatherRowsKernel(const GatherRowsArgs<T> a) {
  constexpr int kEach = 16 / sizeof(T);
  const int64_t id = a.ids[blockIdx.x];
  assert(id >= 0 && id < a.limit);
  const T* const from = a.table + id * a.width;
  T* const to = a.rows + blockIdx.x * a.width;
  if (a.width % kEach == 0 && (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % 16 == 0) {
    for (int64_t at = threadIdx.x; at < a.width / kEach; at += kGatherRowsThreads) {
      reinterpret_cast<uint4*>(to)[at] = reinterpret_cast<const uint4*>(from)[at];
    }
    return;
  }
  for (int64_t at = threadIdx.x; at < a.width; at += kGatherRowsThreads) to[at] = from[at];
}

}  // namespace ingot::kernels::cuda
