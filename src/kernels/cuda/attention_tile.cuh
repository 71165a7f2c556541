// Steps of a block's work on one tile, shared by the kernels in attention_forward.cuh and attention_backward.cuh.
//
// A block is kThreads threads over a tile of kTileRows x kTileKeys. Thread (y, x) = (id / 16, id % 16) holds a 4 x 4
// piece: rows 4y..4y+3, columns x, x+16, x+32, x+48. In an output with kOutDims columns, it holds columns x, x+16, ...
// of the same rows. So a row's maximum, sum, and log-sum-exp stay in the 16 threads of a half-warp.
//
// All arithmetic is in the accumulator's type, fp32 or fp64, without atomic operations. Each output is written by one
// thread, which adds its terms in an order that depends only on packed indices.
#pragma once

#include <math.h>

#include <cstdint>

#include "kernels/cuda/attention_args.h"

namespace ingot::kernels::cuda {

constexpr int kThreads = 256;
constexpr int kLanes = 16;     // threads that share a row
constexpr int kPiece = 4;      // rows, and keys, per thread
constexpr int kOutDims = 128;  // output columns per block; a wider head is computed by several blocks
constexpr int kOutPiece = kOutDims / kLanes;
static_assert(kTileRows == kPiece * kThreads / kLanes && kTileKeys == kPiece * kLanes && kTileRows == kTileKeys);

__device__ __forceinline__ float Wide(float x) { return x; }
__device__ __forceinline__ double Wide(double x) { return x; }
__device__ __forceinline__ float Wide(BFloat16 x) { return ToFloat(x); }
__device__ __forceinline__ void Put(float* to, float x) { *to = x; }
__device__ __forceinline__ void Put(double* to, double x) { *to = x; }
__device__ __forceinline__ void Put(BFloat16* to, float x) { *to = ToBFloat16(x); }
__device__ __forceinline__ float Exp2(float x) { return exp2f(x); }
__device__ __forceinline__ double Exp2(double x) { return exp2(x); }
__device__ __forceinline__ float Greater(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double Greater(double a, double b) { return fmax(a, b); }

// Reduces over a row's 16 threads. All get the same bits, because each step combines the same two numbers on both
// sides.
template <typename Acc>
__device__ __forceinline__ Acc RowMax(Acc x) {
  for (int step = 1; step < kLanes; step *= 2) x = Greater(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
template <typename Acc>
__device__ __forceinline__ Acc RowSum(Acc x) {
  for (int step = 1; step < kLanes; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// A block's shared memory.
template <typename Acc>
struct TileMemory {
  static constexpr int kDepth = sizeof(Acc) == 8 ? 8 : 32;    // of head_dim at a time
  static constexpr int kStretch = sizeof(Acc) == 8 ? 4 : 16;  // rows of the right factor at a time
  Acc left[kTileRows][kDepth + 1], right[kTileKeys][kDepth + 1];
  Acc stretch[kStretch][kOutDims];
  Acc weight[kTileRows][kTileKeys + 1];
  int64_t row_at[kTileRows];  // offset of the row in q; -1 = no such row
  int64_t key_at[kTileKeys], value_at[kTileKeys];
  int32_t key_end[kTileKeys], key_position[kTileKeys];
};
static_assert(sizeof(TileMemory<float>) <= 48 * 1024 && sizeof(TileMemory<double>) <= 48 * 1024);

// The locations of a thread's four rows.
struct RowPlace {
  bool valid[kPiece];
  int64_t query[kPiece];     // packed index
  int64_t position[kPiece];  // depth
  int64_t entry[kPiece];     // (row of q) * heads + head: the index into out and lse
};

// Finds the block's rows in a dense array. `at` (shared memory) receives element offsets, with `stride` between
// queries.
template <typename Acc>
__device__ RowPlace PlaceRows(TileMemory<Acc>& m, const Shape& s, const PlanView& plan, const RowBlock& block,
                              int64_t kv_head) {
  const PlannedSequence& q = plan.sequences[block.sequence];
  const int thread = threadIdx.x;
  if (thread < kTileRows) {
    const int64_t row = block.first_row + thread, head = kv_head * s.group + row % s.group;
    m.row_at[thread] =
        thread < block.rows ? (q.q_begin + row / s.group) * s.q_row_stride + head * s.head_dim : int64_t(-1);
  }
  RowPlace place;
  for (int i = 0; i < kPiece; ++i) {
    const int local = thread / kLanes * kPiece + i;
    const int64_t row = block.first_row + local, query = row / s.group;
    place.valid[i] = local < block.rows;
    place.query[i] = q.q_offset + query;
    place.entry[i] = (q.q_begin + query) * s.heads + kv_head * s.group + row % s.group;
    place.position[i] = place.query[i];
    if (place.valid[i] && q.positions >= 0) place.position[i] = plan.integers[q.positions + place.query[i]];
  }
  __syncthreads();
  return place;
}

// Finds the tile's keys and the queries that see them. Keys past the last one are invisible and read as zeros.
template <typename Acc>
__device__ void PlaceKeys(TileMemory<Acc>& m, const Shape& s, const PlanView& plan, const PlannedSequence& q,
                          int64_t tile, int64_t kv_head) {
  __syncthreads();
  const int thread = threadIdx.x;
  if (thread < kTileKeys) {
    const int64_t key = tile * kTileKeys + thread;
    m.key_at[thread] = m.value_at[thread] = -1;
    m.key_end[thread] = 0;
    m.key_position[thread] = static_cast<int32_t>(key);
    if (key < q.key_count) {
      int64_t row = q.key_begin + key;
      if (q.block_table >= 0) {
        row = static_cast<int64_t>(plan.integers[q.block_table + key / s.page_size]) * s.page_size + key % s.page_size;
      }
      m.key_at[thread] = row * s.k_row_stride + kv_head * s.head_dim;
      m.value_at[thread] = row * s.v_row_stride + kv_head * s.head_dim;
      m.key_end[thread] = q.visible_end >= 0 ? plan.integers[q.visible_end + key] : INT32_MAX;
      if (q.positions >= 0) m.key_position[thread] = plan.integers[q.positions + key];
    }
  }
  __syncthreads();
}

// Returns whether the thread's row i sees its key j.
template <typename Acc>
__device__ __forceinline__ bool Sees(const TileMemory<Acc>& m, const Shape& s, const RowPlace& rows, int i,
                                     int64_t tile, int j) {
  const int column = static_cast<int>(threadIdx.x) % kLanes + j * kLanes;
  const int64_t key = tile * kTileKeys + column;
  return rows.valid[i] && key <= rows.query[i] && rows.query[i] < m.key_end[column] &&
         (s.window == 0 || rows.position[i] - m.key_position[column] < s.window);
}

// dot[i][j] = the thread's row i of `left` times its key j of `right`, over all of head_dim.
template <typename T, typename Acc>
__device__ void DotTile(Acc (&dot)[kPiece][kPiece], TileMemory<Acc>& m, const T* left, const int64_t* left_at,
                        const T* right, const int64_t* right_at, int64_t head_dim) {
  constexpr int kDepth = TileMemory<Acc>::kDepth;
  const int thread = threadIdx.x, y = thread / kLanes, x = thread % kLanes;
  for (int i = 0; i < kPiece; ++i) {
    for (int j = 0; j < kPiece; ++j) dot[i][j] = Acc(0);
  }
  for (int64_t d0 = 0; d0 < head_dim; d0 += kDepth) {
    for (int n = thread; n < kTileRows * kDepth; n += kThreads) {
      const int row = n / kDepth, d = n % kDepth;
      const bool inside = d0 + d < head_dim;
      m.left[row][d] = inside && left_at[row] >= 0 ? Wide(left[left_at[row] + d0 + d]) : Acc(0);
      m.right[row][d] = inside && right_at[row] >= 0 ? Wide(right[right_at[row] + d0 + d]) : Acc(0);
    }
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      Acc a[kPiece], b[kPiece];
      for (int i = 0; i < kPiece; ++i) a[i] = m.left[y * kPiece + i][d];
      for (int j = 0; j < kPiece; ++j) b[j] = m.right[x + j * kLanes][d];
      for (int i = 0; i < kPiece; ++i) {
        for (int j = 0; j < kPiece; ++j) dot[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();
  }
}

// sum[i][j] += row i of m.weight times columns d0 + x + 16 j of the tile's 64 rows of `right`. m.weight must have been
// written since the last barrier or before it.
template <typename T, typename Acc>
__device__ void AddProduct(Acc (&sum)[kPiece][kOutPiece], TileMemory<Acc>& m, const T* right, const int64_t* right_at,
                           int64_t d0, int64_t head_dim) {
  constexpr int kStretch = TileMemory<Acc>::kStretch;
  const int thread = threadIdx.x, y = thread / kLanes, x = thread % kLanes;
  for (int n0 = 0; n0 < kTileKeys; n0 += kStretch) {
    for (int n = thread; n < kStretch * kOutDims; n += kThreads) {
      const int row = n / kOutDims, d = n % kOutDims;
      const int64_t at = right_at[n0 + row];
      m.stretch[row][d] = at >= 0 && d0 + d < head_dim ? Wide(right[at + d0 + d]) : Acc(0);
    }
    __syncthreads();
    for (int n = 0; n < kStretch; ++n) {
      Acc a[kPiece], b[kOutPiece];
      for (int i = 0; i < kPiece; ++i) a[i] = m.weight[y * kPiece + i][n0 + n];
      for (int j = 0; j < kOutPiece; ++j) b[j] = m.stretch[n][x + j * kLanes];
      for (int i = 0; i < kPiece; ++i) {
        for (int j = 0; j < kOutPiece; ++j) sum[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();
  }
}

// Calls f(j, d) for the thread's existing output columns.
template <typename F>
__device__ __forceinline__ void ForColumns(int64_t d0, int64_t head_dim, const F& f) {
  for (int j = 0; j < kOutPiece; ++j) {
    const int64_t d = d0 + static_cast<int>(threadIdx.x) % kLanes + j * kLanes;
    if (d < head_dim) f(j, d);
  }
}

}  // namespace ingot::kernels::cuda
