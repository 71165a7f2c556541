// Sums of rows in an order that depends on a row's length alone, so a row's bits do not depend on the other rows. The
// order of torch's own sums on a GPU depends on the number of rows.
//
// A row has kLanes lanes: a warp, or the whole block for rows longer than kWarpRow. Lane l adds numbers l, l + kLanes,
// ..., and then the lanes' sums are added as a tree.
//
// Grid: x = kRowSumsThreads / kLanes rows.
#pragma once

#include "kernels/cuda/row_sums_args.h"

namespace ingot::kernels::cuda {

template <typename T>
__device__ __forceinline__ T WarpSum(T x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(0xffffffffu, x, mask);
  return x;
}

template <typename T, int kLanes>
__global__ void __launch_bounds__(kRowSumsThreads) RowSumsKernel(const RowSumsArgs<T> a) {
  constexpr int kWarps = kLanes / 32;
  __shared__ T of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kRowSumsThreads / kLanes) + threadIdx.x / kLanes;
  if (row >= a.rows) return;  // whole warps; a block with one row has it
  const T* const x = a.x + row * a.n;
  T sum = 0;
#pragma unroll 4
  for (int64_t i = lane; i < a.n; i += kLanes) sum += x[i];
  sum = WarpSum(sum);
  if constexpr (kWarps > 1) {
    if (lane % 32 == 0) of_warp[lane / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += of_warp[warp];
  }
  if (lane == 0) a.sums[row] = sum;
}

}  // namespace ingot::kernels::cuda
