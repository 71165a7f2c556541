// Online softmax of ForwardMmaKernel, in registers and in base 2.
//
// A warp's scores are 2 x 8 accumulators of m16n8 (32 rows, 64 keys). Lane l has elements {2 (l % 4), 2 (l % 4) + 1} of
// rows l / 4 and l / 4 + 8 of each. So a lane has parts of four rows, numbered i = 0..3: row i * 8 + l / 4 of the warp.
// The four lanes of a quad share them.
#pragma once

#include <math.h>

#include "kernels/cuda/attention_mma_memory.cuh"

namespace ingot::kernels::cuda {

struct WarpScores {
  float at[2][kTileKeys / 8][4];  // the score of row i is at[i / 2][..][i % 2 * 2 + {0, 1}]
};
template <int kWidth>
struct WarpOutput {
  float at[2][kWidth / 8][4];
};

// The largest score so far, times the scale and log2(e), and the lane's part of the sum of 2^(score - top).
struct MmaSoftmax {
  float top[4], sum[4];
};

__device__ __forceinline__ float QuadSum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// Returns the natural logarithm of sum * 2^top.
__device__ __forceinline__ float LogSumExp(float top, float sum) {
  return sum == 0 ? -INFINITY : fmaf(top, static_cast<float>(kLn2), logf(sum));
}

// Returns the state of the sink alone. One lane of a quad has the sink's part of the sum.
template <int kWidth>
__device__ __forceinline__ MmaSoftmax BeginSoftmax(const MmaMemory<kWidth>& m, const ForwardMmaArgs& a) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 32;
  MmaSoftmax state;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t head = m.entry[warp_row + i * 8 + lane / 4] % a.shape.heads;
    state.top[i] = a.sinks == nullptr ? -INFINITY : a.sinks[head] * static_cast<float>(kLog2E);
    state.sum[i] = state.top[i] == -INFINITY || lane % 4 != 0 ? 0.0f : 1.0f;
  }
  return state;
}

// For a scale that is not above 0.
__device__ __forceinline__ void ChangeSign(WarpScores& s, float sign) {
#pragma unroll
  for (int i = 0; i < 2 * (kTileKeys / 8) * 4; ++i)
    s.at[i / 4 / (kTileKeys / 8)][i / 4 % (kTileKeys / 8)][i % 4] *= sign;
}

// Replaces the scores of hidden keys by -infinity.
template <int kWidth>
__device__ __forceinline__ void Mask(WarpScores& s, const MmaMemory<kWidth>& m, int parity, int64_t window) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 32;
  const int32_t reach = window == 0 || window > INT_MAX ? INT_MAX : static_cast<int32_t>(window);
  int32_t query[4], position[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    query[i] = m.query[warp_row + i * 8 + lane / 4] - m.place[parity].tile * kTileKeys;
    position[i] = m.position[warp_row + i * 8 + lane / 4];
  }
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = n * 8 + lane % 4 * 2 + j;
      const auto span = static_cast<uint32_t>(m.key_span[parity][column]);
      const int32_t key_position = m.key_position[parity][column];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // A query before the key is a large number of places after it.
        const bool sees = (static_cast<uint32_t>(query[i] - column) < span) & (position[i] - key_position < reach);
        float& score = s.at[i / 2][n][i % 2 * 2 + j];
        score = sees ? score : -INFINITY;
      }
    }
  }
}

// Adds a tile's scores to a row's softmax. Replaces them by the probabilities relative to the new largest score, and
// multiplies the earlier outputs accordingly. Of the lane's two rows in an accumulator, `i` is the first (0) or second.
template <int kWidth>
__device__ __forceinline__ void AddToRow(float& row_top, float& row_sum, float (&out)[kWidth / 8][4],
                                         float (&s)[kTileKeys / 8][4], int i, float factor) {
  float top = -INFINITY;
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) top = fmaxf(top, fmaxf(s[n][i * 2], s[n][i * 2 + 1]));
  top = fmaxf(row_top, QuadMax(top) * factor);
  // A row that has not seen a key yet keeps its zeros, because -infinity - -infinity is NaN. A NaN score must reach
  // the output, although the maximum ignores it.
  const float base = top == -INFINITY ? 0.0f : top;
  const float rescale = ptx::ApproximateExp2(row_top - base);
  float sum = row_sum * rescale;
#pragma unroll
  for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float& p = s[n][i * 2 + j];
      p = ptx::ApproximateExp2(fmaf(p, factor, -base));
      sum += p;
    }
  }
  row_top = top;
  row_sum = sum;
#pragma unroll
  for (int n = 0; n < kWidth / 8; ++n) {
    out[n][i * 2] *= rescale;
    out[n][i * 2 + 1] *= rescale;
  }
}

template <int kWidth>
__device__ __forceinline__ void AddToSoftmax(MmaSoftmax& state, WarpOutput<kWidth>& out, WarpScores& s, float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) AddToRow<kWidth>(state.top[i], state.sum[i], out.at[i / 2], s.at[i / 2], i % 2, factor);
}

}  // namespace ingot::kernels::cuda
