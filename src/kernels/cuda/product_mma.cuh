// Linear layers with tensor cores whose rows do not depend on each other, for bf16 on sm_80 and newer: numerics exact.
//
// An element of the result is one chain of mma.m16n8k16 with fp32 sums, over the columns of x in ascending order, from 0.
// The depth is never split. So the bits of a row depend only on that row of x and on the weight: not on the number of
// rows, the row's place, or the tile (ProductTile), which only decides which warp computes an element. This assumes that
// a tensor core computes each row of its result in the same way.
//
// Grid: x = tiles of each layer (LayerOfBlock, TileOfBlock). A block has 4 warps, kDown of them below each other. It reads x and the weight in stages
// of kProductDepth columns, through a ring of kStages stages:
//
//   wait for stage i | barrier | start stage i + kStages - 1 | multiply stage i
//
// A row of a stage has 4 pieces of 16 bytes. Piece c of row r is stored at piece c ^ (r / 2 % 4), so that the 8 rows that
// ldmatrix reads at a time are in different banks. Rows, columns, and depths past the end are zeros.
#pragma once

#include "kernels/cuda/product_args.h"
#include "kernels/cuda/ptx.cuh"

namespace ingot::kernels::cuda {

// A thread's part in the copies of a stage's rows, of x or of the weight: one piece of every kStep-th row.
template <int kRows>
struct StageCopy {
  static constexpr int kPieces = kProductDepth / 8, kStep = kProductThreads / kPieces, kRowBytes = kProductDepth * 2;
  static_assert(kStep % 8 == 0);
  const BFloat16* from;  // the thread's piece of its first row
  uint32_t to;           // its place in the first stage
  int64_t stride;        // of kStep rows
  int row, piece;
  int64_t rows;  // that exist, from the tile's first one on

  __device__ StageCopy(const BFloat16* matrix, int64_t first, int64_t count, int64_t in, uint32_t stage)
      : row(static_cast<int>(threadIdx.x) / kPieces), piece(static_cast<int>(threadIdx.x) % kPieces) {
    rows = count - first;
    from = matrix + (first + row) * in + piece * 8;
    stride = kStep * in;
    to = stage + static_cast<uint32_t>(row * kRowBytes + (piece ^ row / 2 % 4) * 16);
  }

  // Starts the copy of columns `depth`, `depth` + 1, ... Returns before it is done.
  __device__ __forceinline__ void Start(uint32_t stage_offset, int64_t depth, int64_t in, const BFloat16* valid) const {
    const bool inside = depth + piece * 8 < in;
#pragma unroll
    for (int i = 0; i < (kRows + kStep - 1) / kStep; ++i) {
      if (kRows % kStep != 0 && row + i * kStep >= kRows) continue;
      const bool reads = inside && row + i * kStep < rows;
      ptx::CopyAsyncOrZero(to + stage_offset + i * kStep * kRowBytes, reads ? from + i * stride + depth : valid, reads);
    }
  }
};

template <int kRows, int kCols, int kDown>
struct WarpTile {
  static constexpr int kAcross = kProductThreads / 32 / kDown;
  static constexpr int kMs = kRows / kDown / 16, kNs = kCols / kAcross / 16;  // pairs of n8
  static_assert(kMs > 0 && kNs > 0 && kMs * 16 * kDown == kRows && kNs * 16 * kAcross == kCols);
};

// Adds the products of one stage.
template <int kMs, int kNs>
__device__ __forceinline__ void MultiplyStage(float (&sums)[kMs][kNs * 2][4], uint32_t x, uint32_t weight) {
  constexpr int kRowBytes = kProductDepth * 2;
#pragma unroll
  for (int depth = 0; depth < kProductDepth / 16; ++depth) {
    uint32_t a[kMs][4], b[4];
#pragma unroll
    for (int m = 0; m < kMs; ++m) ptx::LoadMatrices(a[m], (x ^ depth * 32) + m * 16 * kRowBytes);
#pragma unroll
    for (int n = 0; n < kNs; ++n) {
      ptx::LoadMatrices(b, (weight ^ depth * 32) + n * 16 * kRowBytes);
#pragma unroll
      for (int m = 0; m < kMs; ++m) {
        ptx::MultiplyAdd(sums[m][2 * n], a[m], b[0], b[1]);
        ptx::MultiplyAdd(sums[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Writes two neighboring columns of a row, with the bias. `col` is even.
__device__ __forceinline__ void StorePair(const ProductArgs<BFloat16>& a, int64_t row, int64_t col, float low,
                                          float high) {
  if (row >= a.rows || col >= a.out) return;
  const bool two = col + 1 < a.out;
  if (a.bias != nullptr) {
    low += ToFloat(a.bias[col]);
    if (two) high += ToFloat(a.bias[col + 1]);
  }
  const int64_t at = row * a.out + col;
  if (a.out % 2 == 0) {
    if (a.y != nullptr) {
      *reinterpret_cast<uint32_t*>(a.y + at) = ptx::PackBFloat16(low, high);
    } else {
      *reinterpret_cast<float2*>(a.wide + at) = {low, high};
    }
    return;
  }
  const auto store = [&](int64_t place, float sum) {
    if (a.y != nullptr) {
      a.y[place].bits = static_cast<uint16_t>(ptx::PackBFloat16(sum, 0));
    } else {
      a.wide[place] = sum;
    }
  };
  store(at, low);
  if (two) store(at + 1, high);
}

template <int kRows, int kCols, int kDown, int kStages>
__global__ void __launch_bounds__(kProductThreads, 2) ProductMmaKernel(const ProductArgs<BFloat16> all) {
  using Warp = WarpTile<kRows, kCols, kDown>;
  constexpr int kRowBytes = kProductDepth * 2, kStageBytes = (kRows + kCols) * kRowBytes;
  extern __shared__ __align__(1024) char shared_bytes[];
  const uint32_t memory = ptx::SharedAddress(shared_bytes);
  int64_t block = blockIdx.x;
  const ProductArgs<BFloat16> a = LayerOfBlock(all, kRows, kCols, block);
  const TileIndexes tile = TileOfBlock(block, a.row_tiles(kRows), a.col_tiles(kCols));
  const int64_t first_row = tile.row * kRows, first_col = tile.col * kCols;
  const StageCopy<kRows> copy_x(a.x, first_row, a.rows, a.in, memory);
  const StageCopy<kCols> copy_weight(a.weight, first_col, a.out, a.in, memory + kRows * kRowBytes);
  const auto start = [&](int64_t step) {
    const uint32_t offset = static_cast<uint32_t>(step % kStages) * kStageBytes;
    copy_x.Start(offset, step * kProductDepth, a.in, a.x);
    copy_weight.Start(offset, step * kProductDepth, a.in, a.weight);
  };
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / Warp::kAcross * Warp::kMs * 16, warp_col = warp % Warp::kAcross * Warp::kNs * 16;
  // ldmatrix's rows of x: 0-15 of a piece, then of the next one. Of the weight: 0-7, the next piece, 8-15.
  const int down = lane % 16, beside = lane / 16 * 8 + lane % 8;
  const uint32_t x = memory + (warp_row + down) * kRowBytes + (lane / 16 ^ down / 2 % 4) * 16;
  const uint32_t weight = memory + (kRows + warp_col + beside) * kRowBytes + (lane / 8 % 2 ^ beside / 2 % 4) * 16;
  const int64_t steps = (a.in + kProductDepth - 1) / kProductDepth;
  float sums[Warp::kMs][Warp::kNs * 2][4] = {};
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) start(step);
    ptx::CommitCopies();
  }
  for (int64_t step = 0; step < steps; ++step) {
    ptx::WaitForCopyGroups<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < steps) start(step + kStages - 1);
    ptx::CommitCopies();
    const uint32_t offset = static_cast<uint32_t>(step % kStages) * kStageBytes;
    MultiplyStage<Warp::kMs, Warp::kNs>(sums, x + offset, weight + offset);
  }
#pragma unroll
  for (int m = 0; m < Warp::kMs; ++m) {
#pragma unroll
    for (int n = 0; n < Warp::kNs * 2; ++n) {
      const int64_t row = first_row + warp_row + m * 16 + lane / 4, col = first_col + warp_col + n * 8 + lane % 4 * 2;
      StorePair(a, row, col, sums[m][n][0], sums[m][n][1]);
      StorePair(a, row + 8, col, sums[m][n][2], sums[m][n][3]);
    }
  }
}

}  // namespace ingot::kernels::cuda
