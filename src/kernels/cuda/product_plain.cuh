// Linear layers without tensor cores whose rows do not depend on each other: fp32, fp64, and bf16 whose rows are not in
// pieces of 16 bytes (UsesMmaProduct).
//
// An element of the result is one chain of fused multiply-adds over the columns of x in ascending order, from 0, in the
// type of the sums. So the bits of a row depend only on that row of x and on the weight.
//
// Grid: x = tiles of kRows rows and kPlainCols columns of each layer (LayerOfBlock, TileOfBlock). A thread computes every 16th of them.
#pragma once

#include "kernels/cuda/product_args.h"

namespace ingot::kernels::cuda {

__device__ __forceinline__ float FusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double FusedMultiplyAdd(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ float Widened(float x) { return x; }
__device__ __forceinline__ double Widened(double x) { return x; }
__device__ __forceinline__ float Widened(BFloat16 x) { return ToFloat(x); }
__device__ __forceinline__ void StoreRounded(float sum, float& to) { to = sum; }
__device__ __forceinline__ void StoreRounded(double sum, double& to) { to = sum; }
__device__ __forceinline__ void StoreRounded(float sum, BFloat16& to) { to = ToBFloat16(sum); }

// Reads columns depth, depth + 1, ... of kRows rows. Rows and columns past the end are zeros.
template <typename T, int kRows>
__device__ __forceinline__ void ReadStage(Accumulator<T> (&to)[kRows][kPlainDepth + 1], const T* from, int64_t rows,
                                          int64_t in, int64_t depth) {
  const int column = static_cast<int>(threadIdx.x) % kPlainDepth;
#pragma unroll
  for (int row = static_cast<int>(threadIdx.x) / kPlainDepth, i = 0; i < kRows / 16; ++i, row += 16) {
    const bool inside = row < rows && depth + column < in;
    to[row][column] = inside ? Widened(from[row * in + depth + column]) : Accumulator<T>{0};
  }
}

template <typename T, int kRows>
__global__ void __launch_bounds__(kPlainProductThreads) ProductKernel(const ProductArgs<T> all) {
  using Acc = Accumulator<T>;
  constexpr int kOfRows = kRows / 16, kOfCols = kPlainCols / 16;
  __shared__ Acc x[kRows][kPlainDepth + 1], weight[kPlainCols][kPlainDepth + 1];  // padded against bank conflicts
  int64_t block = blockIdx.x;
  const ProductArgs<T> a = LayerOfBlock(all, kRows, kPlainCols, block);
  const TileIndexes tile = TileOfBlock(block, a.row_tiles(kRows), a.col_tiles(kPlainCols));
  const int64_t first_row = tile.row * kRows, first_col = tile.col * kPlainCols;
  const int col = static_cast<int>(threadIdx.x) % 16, row = static_cast<int>(threadIdx.x) / 16;
  Acc sums[kOfRows][kOfCols] = {};
  for (int64_t depth = 0; depth < a.in; depth += kPlainDepth) {
    ReadStage<T>(x, a.x + first_row * a.in, a.rows - first_row, a.in, depth);
    ReadStage<T>(weight, a.weight + first_col * a.in, a.out - first_col, a.in, depth);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPlainDepth; ++k) {
#pragma unroll
      for (int j = 0; j < kOfCols; ++j) {
        const Acc w = weight[col + j * 16][k];
#pragma unroll
        for (int i = 0; i < kOfRows; ++i) sums[i][j] = FusedMultiplyAdd(x[row + i * 16][k], w, sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOfRows; ++i) {
#pragma unroll
    for (int j = 0; j < kOfCols; ++j) {
      const int64_t r = first_row + row + i * 16, c = first_col + col + j * 16;
      if (r >= a.rows || c >= a.out) continue;
      const Acc sum = a.bias == nullptr ? sums[i][j] : sums[i][j] + Widened(a.bias[c]);
      if (a.y != nullptr) {
        StoreRounded(sum, a.y[r * a.out + c]);
      } else {
        a.wide[r * a.out + c] = sum;
      }
    }
  }
}

}  // namespace ingot::kernels::cuda
