// Computes tree attention gradients with tensor cores, for bf16 on sm_80 and newer: the same as GradQKernel and
// GradKeysKernel (attention_backward.cuh), for the shapes of UsesMma (attention_args.h). Seven products instead of five,
// because both kernels recompute the probabilities. No atomic operations: each gradient is written by one block, which
// adds its terms in a fixed order.
//
// GradQMmaKernel     grid: x = block of 64 rows, last first, y = kv head. For each tile of 64 keys of the block's list:
//
//   wait for V(i) | barrier | start K(i)   | dP = G V^T                       G: the output's gradient
//   wait for K(i) | barrier | start V(i+1) | S = Q K^T, dS = P (dP - delta), dQ = dQ + dS K
//
//   A warp has 32 rows and half of each tile's keys. The sums of both halves are added at the end.
//
// GradKeysMmaKernel  grid: x = key block (a tile and some of the blocks that read it), y = kv head. For each half of them,
// 32 rows, a stage:
//
//   wait for Q(i), G(i) | barrier | start Q(i+1), G(i+1)
//                                 | dP^T = V G^T, S^T = K Q^T, dS = P (dP - delta), dV = dV + P^T G, dK = dK + dS^T Q
//
//   A warp has 16 keys, and their rows of K and V in registers. It computes the transposes, whose accumulators have the
//   layout of mma's left operand. So P and dS are exchanged neither through shared memory nor between lanes.
//
// KeySumMmaKernel    grid: x = tile whose list was cut into several key blocks, y = kv head. Adds their sums in order.
//
// Errors compared with fp64: 2^-9 of P's and dS's rounding, averaged over the terms of a sum. All sums are fp32.
//
// Source: Dao, arXiv 2307.08691, algorithm 2.
#pragma once

#include "kernels/cuda/attention_backward_mma_scores.cuh"

namespace ingot::kernels::cuda {

// Adds the sums of the warps with the second half of the keys to those with the first half, which write them.
template <int kWidth>
__device__ __forceinline__ void WriteGradQ(GradQMemory<kWidth>& m, const BackwardArgs<BFloat16>& a,
                                           Fragments<2, kWidth / 8>& sum) {
  constexpr int kN = kWidth / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  static_assert(sizeof(m.q) + sizeof(m.grad) == sizeof(float) * kTileRows * kWidth);
  float4* const exchange = reinterpret_cast<float4*>(&m.q) + warp / 2 * 2 * kN * 32 + lane;
  if (warp % 2 == 1) {
#pragma unroll
    for (int i = 0; i < 2 * kN; ++i) {
      const float(&s)[4] = sum.at[i / kN][i % kN];
      exchange[i * 32] = {s[0], s[1], s[2], s[3]};
    }
  }
  __syncthreads();
  if (warp % 2 == 1) return;
  const auto scale = static_cast<float>(a.shape.scale);
#pragma unroll
  for (int i = 0; i < 2 * kN; ++i) {
    const float4 other = exchange[i * 32];
    const float(&s)[4] = sum.at[i / kN][i % kN];
    const int row = warp / 2 * 32 + i / kN * 16 + lane / 4, d = i % kN * 8;
    if (d >= a.shape.head_dim) continue;
    BFloat16* const to = a.grad_q + d + lane % 4 * 2;
    if (row < m.block.rows) {
      *reinterpret_cast<uint32_t*>(to + m.rows.entry[row] * a.shape.head_dim) =
          ptx::PackBFloat16((s[0] + other.x) * scale, (s[1] + other.y) * scale);
    }
    if (row + 8 < m.block.rows) {
      *reinterpret_cast<uint32_t*>(to + m.rows.entry[row + 8] * a.shape.head_dim) =
          ptx::PackBFloat16((s[2] + other.z) * scale, (s[3] + other.w) * scale);
    }
  }
}

// Finds the next tile, by the first threads of a block.
template <int kWidth>
__device__ __forceinline__ void PlaceTile(GradQMemory<kWidth>& m, const BackwardArgs<BFloat16>& a, const TilePlace& at,
                                          int parity) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kTileKeys) return;
  if (thread == 0) m.tile[parity] = at;
  if (at.run < m.block.last_run) PlaceKey(m.keys[parity], thread, a, m.sequence, at.tile);
}

template <int kWidth>
__global__ void __launch_bounds__(kMmaThreads, 2) GradQMmaKernel(const BackwardArgs<BFloat16> a) {
  extern __shared__ __align__(1024) char shared_bytes[];
  GradQMemory<kWidth>& m = *reinterpret_cast<GradQMemory<kWidth>*>(shared_bytes);
  constexpr int kHalf = 32 * kWidth * 2;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, kv_head = static_cast<int>(blockIdx.y);
  if (thread == 0) {
    m.block = a.plan.blocks[gridDim.x - 1 - blockIdx.x];
    m.sequence = a.plan.sequences[0];
  }
  __syncthreads();
  if (thread < kTileRows) PlaceRow(m.rows, thread, thread, a, m.sequence, m.block, kv_head);
  PlaceTile(m, a, EnterRun(a.plan, m.block, m.block.first_run), 0);
  __syncthreads();
  const RowCopy<kWidth> copy;
  const auto last = static_cast<int32_t>(m.sequence.key_count) - 1;
  copy.Clear(a.shape, m.q);
  copy.Clear(a.shape, m.grad);
  copy.Rows(a.q, a.shape, m.rows, m.q);
  copy.Rows(a.grad_out, a.shape, m.rows, m.grad);
  bool more = m.tile[0].run < m.block.last_run;
  if (more) copy.Keys(a.v, a.shape, m.tile[0].tile, last, kv_head, m.v);
  const LaneOffsets<kWidth> lane;
  const uint32_t q = ptx::SharedAddress(m.q) + warp / 2 * kHalf + lane.across,
                 grad = ptx::SharedAddress(m.grad) + warp / 2 * kHalf + lane.across,
                 k = ptx::SharedAddress(m.k) + warp % 2 * kHalf, v = ptx::SharedAddress(m.v) + warp % 2 * kHalf;
  const auto scale = static_cast<float>(a.shape.scale * kLog2E);
  Fragments<2, kWidth / 8> sum = {};
  for (int parity = 0; more; parity ^= 1) {
    ptx::WaitForCopies();
    __syncthreads();
    copy.Keys(a.k, a.shape, m.tile[parity].tile, last, kv_head, m.k);
    PlaceTile(m, a, NextTile(a.plan, m.block, m.tile[parity]), parity ^ 1);
    Fragments<2, 4> dp, s;
    MultiplyRows<kWidth>(dp, grad, v + lane.down);
    ptx::WaitForCopies();
    __syncthreads();
    more = m.tile[parity ^ 1].run < m.block.last_run;
    if (more) copy.Keys(a.v, a.shape, m.tile[parity ^ 1].tile, last, kv_head, m.v);
    MultiplyRows<kWidth>(s, q, k + lane.down);
    ScoreGradients(dp, s, m, parity, a.shape, scale);
    AddRows<kWidth>(sum, dp, k + lane.across);
  }
  ptx::WaitForCopies();  // a block without a tile has not waited for its rows
  __syncthreads();
  WriteGradQ(m, a, sum);
}

// Finds the rows of a stage, by the first threads of a block.
template <int kWidth>
__device__ __forceinline__ void PlaceStage(GradKeysMemory<kWidth>& m, const BackwardArgs<BFloat16>& a,
                                           const StagePlace& at, int kv_head, int stage) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kStageRows) return;
  if (thread == 0) m.place[stage] = at;
  if (at.run >= m.key_block.last_run) return;
  PlaceRow(m.rows[stage], thread, at.half * kStageRows + thread, a, m.sequence, a.plan.blocks[at.block], kv_head);
}

// The sums of one part of a tile, [kTileKeys, head_dim] of keys and then of values.
__device__ __forceinline__ float* PartialSums(const BackwardArgs<BFloat16>& a, int32_t slot, int kv_head) {
  return a.partial + (slot * a.shape.kv_heads + kv_head) * 2 * kTileKeys * a.shape.head_dim;
}

// Adds a warp's sums to those of its keys, or writes them if `add` is false. `to` is the tile's first key.
template <int kWidth>
__device__ __forceinline__ void WriteKeySums(const Fragments<1, kWidth / 8>& sum, float scale, float* to,
                                             int64_t stride, int32_t keys, int64_t head_dim, bool add) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = warp * 16 + half * 8 + lane / 4;
    if (key >= keys) continue;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      if (n * 8 >= head_dim) continue;
      float2& at = *reinterpret_cast<float2*>(to + key * stride + n * 8 + lane % 4 * 2);
      const float2 before = add ? at : float2{0, 0};
      at = {before.x + sum.at[0][n][half * 2] * scale, before.y + sum.at[0][n][half * 2 + 1] * scale};
    }
  }
}

template <int kWidth>
__device__ __forceinline__ void WriteGradKeys(const GradKeysMemory<kWidth>& m, const BackwardArgs<BFloat16>& a,
                                              const Fragments<1, kWidth / 8>& sum_k,
                                              const Fragments<1, kWidth / 8>& sum_v, int kv_head) {
  const Shape& s = a.shape;
  const auto scale = static_cast<float>(s.scale);
  if (m.key_block.slot >= 0) {
    float* const to = PartialSums(a, m.key_block.slot, kv_head);
    WriteKeySums<kWidth>(sum_k, scale, to, s.head_dim, kTileKeys, s.head_dim, false);
    WriteKeySums<kWidth>(sum_v, 1, to + kTileKeys * s.head_dim, s.head_dim, kTileKeys, s.head_dim, false);
    return;
  }
  const int64_t first = m.key_block.tile * kTileKeys, at = (first * s.kv_heads + kv_head) * s.head_dim;
  const auto keys = static_cast<int32_t>(m.sequence.key_count - first);
  WriteKeySums<kWidth>(sum_k, scale, a.sum_k + at, s.kv_heads * s.head_dim, keys, s.head_dim, true);
  WriteKeySums<kWidth>(sum_v, 1, a.sum_v + at, s.kv_heads * s.head_dim, keys, s.head_dim, true);
}

template <int kWidth>
__global__ void __launch_bounds__(kMmaThreads, 2) GradKeysMmaKernel(const BackwardArgs<BFloat16> a) {
  extern __shared__ __align__(1024) char shared_bytes[];
  GradKeysMemory<kWidth>& m = *reinterpret_cast<GradKeysMemory<kWidth>*>(shared_bytes);
  constexpr int kStage = kStageRows * kWidth * 2, kQuarter = 16 * kWidth * 2;  // bytes
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, kv_head = static_cast<int>(blockIdx.y);
  if (thread == 0) {
    m.key_block = a.plan.key_blocks[blockIdx.x];
    m.sequence = a.plan.sequences[0];
  }
  __syncthreads();
  if (m.key_block.first_run == m.key_block.last_run) return;  // nobody sees these keys
  if (thread < kTileKeys) PlaceKey(m.keys, thread, a, m.sequence, m.key_block.tile);
  const StagePlace first = EnterBlockRun(a.plan, m.key_block, m.key_block.first_run);
  PlaceStage(m, a, first, kv_head, 0);
  PlaceStage(m, a, NextStage(a.plan, m.key_block, first), kv_head, 1);
  using Tile = BFloat16[kTileKeys][kWidth];
  Tile &all_q = reinterpret_cast<Tile&>(m.q), &all_grad = reinterpret_cast<Tile&>(m.grad);
  const RowCopy<kWidth> copy;
  const auto last = static_cast<int32_t>(m.sequence.key_count) - 1;
  copy.Keys(a.k, a.shape, m.key_block.tile, last, kv_head, all_q);
  copy.Keys(a.v, a.shape, m.key_block.tile, last, kv_head, all_grad);
  const LaneOffsets<kWidth> lane;
  const uint32_t q = ptx::SharedAddress(m.q), grad = ptx::SharedAddress(m.grad);
  uint32_t k[kWidth / 16][4], v[kWidth / 16][4];
  ptx::WaitForCopies();
  __syncthreads();
  LoadRows(k, q + warp * kQuarter + lane.across);
  LoadRows(v, grad + warp * kQuarter + lane.across);
  __syncthreads();
  copy.Clear(a.shape, all_q);
  copy.Clear(a.shape, all_grad);
  copy.Rows(a.q, a.shape, m.rows[0], m.q[0]);
  copy.Rows(a.grad_out, a.shape, m.rows[0], m.grad[0]);
  const auto scale = static_cast<float>(a.shape.scale * kLog2E);
  Fragments<1, kWidth / 8> sum_k = {}, sum_v = {};
  bool more = true;
  for (int stage = 0, parity = 0; more; parity ^= 1) {
    const int next = stage == 2 ? 0 : stage + 1;
    ptx::WaitForCopies();
    __syncthreads();
    more = m.place[next].run < m.key_block.last_run;
    if (more) {
      copy.Rows(a.q, a.shape, m.rows[next], m.q[parity ^ 1]);
      copy.Rows(a.grad_out, a.shape, m.rows[next], m.grad[parity ^ 1]);
      PlaceStage(m, a, NextStage(a.plan, m.key_block, m.place[next]), kv_head, next == 2 ? 0 : next + 1);
    }
    Fragments<1, kStageRows / 8> dp, s;
    MultiplyLoaded(dp, v, grad + parity * kStage + lane.down);
    MultiplyLoaded(s, k, q + parity * kStage + lane.down);
    ScoreGradients(dp, s, m, stage, a.shape, scale);
    AddRows<kWidth>(sum_v, s, grad + parity * kStage + lane.across);
    AddRows<kWidth>(sum_k, dp, q + parity * kStage + lane.across);
    stage = next;
  }
  WriteGradKeys(m, a, sum_k, sum_v, kv_head);
}

__global__ void __launch_bounds__(kMmaThreads) KeySumMmaKernel(const BackwardArgs<BFloat16> a) {
  const Shape& s = a.shape;
  const KeySum sum = a.plan.key_sums[blockIdx.x];
  const int kv_head = static_cast<int>(blockIdx.y), pieces = static_cast<int>(s.head_dim) / 4;
  const int64_t first = sum.tile * kTileKeys, keys = min(a.plan.sequences[0].key_count - first, int64_t{kTileKeys});
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kTileKeys * pieces; i += kMmaThreads) {
    const int key = i / pieces % kTileKeys, d = i % pieces * 4;
    if (key >= keys) continue;
    float* const sums = i < kTileKeys * pieces ? a.sum_k : a.sum_v;
    float4& to = *reinterpret_cast<float4*>(sums + ((first + key) * s.kv_heads + kv_head) * s.head_dim + d);
    float4 total = to;
    for (int32_t slot = sum.first_slot; slot < sum.last_slot; ++slot) {
      const float4 part = reinterpret_cast<const float4*>(PartialSums(a, slot, kv_head))[i];
      total = {total.x + part.x, total.y + part.y, total.z + part.z, total.w + part.w};
    }
    to = total;
  }
}

}  // namespace ingot::kernels::cuda
