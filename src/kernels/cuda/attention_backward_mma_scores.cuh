// Products, probabilities, and the scores' gradients in the registers of a warp, for the kernels in
// attention_backward_mma.cuh.
#pragma once

#include "kernels/cuda/attention_backward_mma_memory.cuh"

namespace ingot::kernels::cuda {

// Accumulators of m16n8 for kM x kN of them: element (row, column) of the warp's part is at[row / 16][column / 8]
// [row % 16 / 8 * 2 + column % 2] of lane row % 8 * 4 + column % 8 / 2.
template <int kM, int kN>
struct Fragments {
  float at[kM][kN][4];
};

// The addresses that a lane passes to ldmatrix, relative to an array of rows: `across` for the left operand and for the
// right one transposed, `down` for the right operand.
template <int kWidth>
struct LaneOffsets {
  uint32_t across, down;

  __device__ LaneOffsets() {
    constexpr int kRowBytes = kWidth * 2;
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8;
    across = lane % 16 * kRowBytes + (lane / 16 ^ row) * 16;               // rows 0-15, then next chunk
    down = (lane / 16 * 8 + row) * kRowBytes + (lane / 8 % 2 ^ row) * 16;  // rows 0-7, next chunk, 8-15
  }
};

// c = a b^T, for kM x 16 rows of a and kN x 8 rows of b.
template <int kWidth, int kM, int kN>
__device__ __forceinline__ void MultiplyRows(Fragments<kM, kN>& c, uint32_t a, uint32_t b) {
  constexpr int kRowBytes = kWidth * 2;
  c = {};
#pragma unroll
  for (int depth = 0; depth < kWidth / 16; ++depth) {
    uint32_t left[kM][4], right[4];
#pragma unroll
    for (int m = 0; m < kM; ++m) ptx::LoadMatrices(left[m], Chunks(a, depth) + m * 16 * kRowBytes);
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) {
      ptx::LoadMatrices(right, Chunks(b, depth) + n * 16 * kRowBytes);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        ptx::MultiplyAdd(c.at[m][2 * n], left[m], right[0], right[1]);
        ptx::MultiplyAdd(c.at[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// sum += a b, for a rounded to bf16 and kN x 8 rows of b.
template <int kWidth, int kM, int kN>
__device__ __forceinline__ void AddRows(Fragments<kM, kWidth / 8>& sum, const Fragments<kM, kN>& a, uint32_t b) {
  constexpr int kRowBytes = kWidth * 2;
#pragma unroll
  for (int depth = 0; depth < kN / 2; ++depth) {
    uint32_t left[kM][4], right[4];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = a.at[m][2 * depth + i / 2];
        left[m][i] = ptx::PackBFloat16(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      ptx::LoadMatricesTransposed(right, Chunks(b, n) + depth * 16 * kRowBytes);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        ptx::MultiplyAdd(sum.at[m][2 * n], left[m], right[0], right[1]);
        ptx::MultiplyAdd(sum.at[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// What a window hides: keys this many positions before the query or more.
__device__ __forceinline__ int32_t Reach(int64_t window) {
  return window == 0 || window > INT_MAX ? INT_MAX : static_cast<int32_t>(window);
}

// A query before the key is a large number of places after it.
__device__ __forceinline__ bool Sees(int32_t query, int32_t key, int32_t span, int32_t distance, int32_t reach) {
  return (static_cast<uint32_t>(query - key) < static_cast<uint32_t>(span)) & (distance < reach);
}

// Replaces the probabilities of hidden keys by 0, for a warp's 32 rows and 32 keys.
template <int kWidth>
__device__ __forceinline__ void Hide(Fragments<2, 4>& p, const GradQMemory<kWidth>& m, int parity, int32_t reach) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int column = warp % 2 * 32 + n * 8 + lane % 4 * 2 + j, key = m.tile[parity].tile * kTileKeys + column;
      const int32_t span = m.keys[parity].span[column], position = m.keys[parity].position[column];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp / 2 * 32 + i * 8 + lane / 4;
        float& x = p.at[i / 2][n][i % 2 * 2 + j];
        x = Sees(m.rows.query[row], key, span, m.rows.position[row] - position, reach) ? x : 0.0f;
      }
    }
  }
}

// Replaces dp by the scores' gradients, and s by the probabilities, for a warp's 32 rows and 32 keys.
template <int kWidth>
__device__ __forceinline__ void ScoreGradients(Fragments<2, 4>& dp, Fragments<2, 4>& s, const GradQMemory<kWidth>& m,
                                               int parity, const Shape& shape, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first = warp / 2 * 32 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float lse = m.rows.lse[first + i * 8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float& p = s.at[i / 2][n / 2][i % 2 * 2 + n % 2];
      p = ptx::ApproximateExp2(fmaf(p, scale, -lse));
    }
  }
  if (m.tile[parity].masked != 0) Hide(s, m, parity, Reach(shape.window));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float delta = m.rows.delta[first + i * 8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float& gradient = dp.at[i / 2][n / 2][i % 2 * 2 + n % 2];
      gradient = s.at[i / 2][n / 2][i % 2 * 2 + n % 2] * (gradient - delta);
    }
  }
}

// Loads 16 rows as left operands.
template <int kDepth>
__device__ __forceinline__ void LoadRows(uint32_t (&rows)[kDepth][4], uint32_t at) {
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) ptx::LoadMatrices(rows[depth], Chunks(at, depth));
}

// c = a b^T, for 16 loaded rows of a and kN x 8 rows of b.
template <int kDepth, int kN>
__device__ __forceinline__ void MultiplyLoaded(Fragments<1, kN>& c, const uint32_t (&a)[kDepth][4], uint32_t b) {
  c = {};
#pragma unroll
  for (int depth = 0; depth < kDepth; ++depth) {
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) {
      uint32_t right[4];
      ptx::LoadMatrices(right, Chunks(b, depth) + n * 16 * kDepth * 32);
      ptx::MultiplyAdd(c.at[0][2 * n], a[depth], right[0], right[1]);
      ptx::MultiplyAdd(c.at[0][2 * n + 1], a[depth], right[2], right[3]);
    }
  }
}

// The same for the transposes of a warp's 16 keys and a stage's rows.
template <int kWidth>
__device__ __forceinline__ void Hide(Fragments<1, kStageRows / 8>& p, const GradKeysMemory<kWidth>& m,
                                     const PlacedRows<kStageRows>& rows, int32_t reach) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = warp * 16 + half * 8 + lane / 4, key = m.key_block.tile * kTileKeys + column;
    const int32_t span = m.keys.span[column], position = m.keys.position[column];
#pragma unroll
    for (int n = 0; n < kStageRows / 4; ++n) {
      const int row = n / 2 * 8 + lane % 4 * 2 + n % 2;
      float& x = p.at[0][n / 2][half * 2 + n % 2];
      x = Sees(rows.query[row], key, span, rows.position[row] - position, reach) ? x : 0.0f;
    }
  }
}

template <int kWidth>
__device__ __forceinline__ void ScoreGradients(Fragments<1, kStageRows / 8>& dp, Fragments<1, kStageRows / 8>& s,
                                               const GradKeysMemory<kWidth>& m, int stage, const Shape& shape,
                                               float scale) {
  const int first = static_cast<int>(threadIdx.x) % 4 * 2;
  const PlacedRows<kStageRows>& rows = m.rows[stage];
#pragma unroll
  for (int n = 0; n < kStageRows / 8; ++n) {
    const float2 lse = *reinterpret_cast<const float2*>(&rows.lse[n * 8 + first]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      s.at[0][n][i] = ptx::ApproximateExp2(fmaf(s.at[0][n][i], scale, i % 2 == 0 ? -lse.x : -lse.y));
    }
  }
  if (m.place[stage].masked != 0) Hide(s, m, rows, Reach(shape.window));
#pragma unroll
  for (int n = 0; n < kStageRows / 8; ++n) {
    const float2 delta = *reinterpret_cast<const float2*>(&rows.delta[n * 8 + first]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      dp.at[0][n][i] = s.at[0][n][i] * (dp.at[0][n][i] - (i % 2 == 0 ? delta.x : delta.y));
    }
  }
}

}  // namespace ingot::kernels::cuda
