// Computes the forward pass of tree attention with tensor cores, for bf16 on sm_80 and newer.
//
// Same inputs and outputs as ForwardKernel (attention_forward.cuh): queries, keys, and values with the strides in Shape,
// pages, windows, and sinks. Head widths are multiples of 8 up to 128, padded to 64 or 128 in shared memory. UsesMma (attention_args.h) chooses between the two kernels from the type and the shape alone.
//
// Grid: x = block of rows (plan.blocks, last first, because later rows see more keys), y = kv head. A block has 4 warps
// of 32 rows. For each tile of 64 keys in the plan:
//
//   wait for K(i)   | barrier | start V(i)   | S = Q K^T                     mma.sync m16n8k16, bf16 with fp32 sums
//   wait for V(i)   | barrier | start K(i+1) | mask, online softmax, O = O 2^(old top - new top) + P V
//
// Scores, softmax, and outputs stay in registers. P is rounded to bf16 for its product, but not for its sum. A tile that
// the plan marks as unmasked needs no mask. The others select between a score and -infinity, without branches.
//
// Errors compared with fp64: 2^-9 of P's rounding, averaged over the keys, and 2^-9 of the output's. Each row's bits
// depend only on its own keys, because tiles are aligned in the packed index and a hidden key adds exactly 0.
//
// Sources: Milakov and Gimelshein, arXiv 1805.02867 (online softmax); Dao, arXiv 2307.08691 (work split between warps).
#pragma once

#include "kernels/cuda/attention_mma_memory.cuh"
#include "kernels/cuda/attention_mma_softmax.cuh"

namespace ingot::kernels::cuda {

// s = q k^T, for the warp's 32 rows and the tile's 64 keys.
template <int kWidth>
__device__ __forceinline__ void MultiplyKeys(WarpScores& s, const LaneAddresses& at) {
  constexpr int kRowBytes = MmaMemory<kWidth>::kRowBytes;
  s = {};
#pragma unroll
  for (int depth = 0; depth < kWidth / 16; ++depth) {
    uint32_t q[2][4], k[4];
#pragma unroll
    for (int m = 0; m < 2; ++m) ptx::LoadMatrices(q[m], Chunks(at.q, depth) + m * 16 * kRowBytes);
#pragma unroll
    for (int n = 0; n < kTileKeys / 16; ++n) {
      ptx::LoadMatrices(k, Chunks(at.k, depth) + n * 16 * kRowBytes);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::MultiplyAdd(s.at[m][2 * n], q[m], k[0], k[1]);
        ptx::MultiplyAdd(s.at[m][2 * n + 1], q[m], k[2], k[3]);
      }
    }
  }
}

// out += p v. The accumulators' layout of p is that of mma's left operand, so p needs no exchange between lanes.
template <int kWidth>
__device__ __forceinline__ void AddValues(WarpOutput<kWidth>& out, const WarpScores& p, const LaneAddresses& at) {
  constexpr int kRowBytes = MmaMemory<kWidth>::kRowBytes;
#pragma unroll
  for (int depth = 0; depth < kTileKeys / 16; ++depth) {
    uint32_t weights[2][4], v[4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = p.at[m][2 * depth + i / 2];
        weights[m][i] = ptx::PackBFloat16(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
      }
    }
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      ptx::LoadMatricesTransposed(v, Chunks(at.v, n) + depth * 16 * kRowBytes);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        ptx::MultiplyAdd(out.at[m][2 * n], weights[m], v[0], v[1]);
        ptx::MultiplyAdd(out.at[m][2 * n + 1], weights[m], v[2], v[3]);
      }
    }
  }
}

// Divides the outputs by their sums and writes them, 16 bytes per lane, through the warp's own rows of q.
template <int kWidth>
__device__ __forceinline__ void WriteOutput(MmaMemory<kWidth>& m, const ForwardMmaArgs& a,
                                            const WarpOutput<kWidth>& out, const MmaSoftmax& state) {
  constexpr int kRowBytes = MmaMemory<kWidth>::kRowBytes, kChunks = kRowBytes / 16;
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 32;
  const int rows = m.block.rows;
  char* const memory = reinterpret_cast<char*>(m.q[warp_row]);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sum = QuadSum(state.sum[i]), inverse = sum == 0 ? 0.0f : 1.0f / sum;
    const int row = i * 8 + lane / 4;
    char* const to = memory + row * kRowBytes + lane % 4 * 4;
#pragma unroll
    for (int n = 0; n < kChunks; ++n) {
      const float(&o)[4] = out.at[i / 2][n];
      *reinterpret_cast<uint32_t*>(to + (n ^ row % 8) * 16) =
          ptx::PackBFloat16(o[i % 2 * 2] * inverse, o[i % 2 * 2 + 1] * inverse);
    }
    if (a.lse != nullptr && lane % 4 == 0 && warp_row + row < rows) {
      a.lse[m.entry[warp_row + row]] = LogSumExp(state.top[i], sum);
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int row = lane / kChunks + i * (32 / kChunks), chunk = lane % kChunks;
    if (warp_row + row >= rows || chunk * 8 >= a.shape.head_dim) continue;
    const uint4 piece = *reinterpret_cast<const uint4*>(memory + row * kRowBytes + (chunk ^ row % 8) * 16);
    *reinterpret_cast<uint4*>(a.out + m.entry[warp_row + row] * a.shape.head_dim + chunk * 8) = piece;
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kMmaThreads, 2) ForwardMmaKernel(const ForwardMmaArgs a) {
  extern __shared__ __align__(1024) char shared_bytes[];
  MmaMemory<kWidth>& m = *reinterpret_cast<MmaMemory<kWidth>*>(shared_bytes);
  PlaceBlock(m, a, static_cast<int>(blockIdx.y));
  const CopyLane<kWidth> copy(a, static_cast<int>(blockIdx.y));
  const LaneAddresses at = PlaceLane(m);
  const bool active = static_cast<int>(threadIdx.x) / 32 * 32 < m.block.rows;  // does the warp have a row?
  bool more = m.place[0].run < m.block.last_run;
  copy.Queries(m, a);
  if (more) copy.Tile(a.k, a.shape.k_row_stride, m.k, m.key_row[0]);
  MmaSoftmax state = BeginSoftmax(m, a);
  WarpOutput<kWidth> out = {};
  for (int parity = 0; more; parity ^= 1) {
    ptx::WaitForCopies();
    __syncthreads();
    copy.Tile(a.v, a.shape.v_row_stride, m.v, m.key_row[parity]);
    if (threadIdx.x < kTileKeys) PlaceKeys(m, a, NextTile(a.plan, m.block, m.place[parity]), parity ^ 1);
    WarpScores s;
    if (active) MultiplyKeys<kWidth>(s, at);
    ptx::WaitForCopies();
    __syncthreads();
    more = m.place[parity ^ 1].run < m.block.last_run;
    if (more) copy.Tile(a.k, a.shape.k_row_stride, m.k, m.key_row[parity ^ 1]);
    if (active) {
      if (a.sign <= 0) ChangeSign(s, a.sign);
      if (m.place[parity].masked != 0) Mask(s, m, parity, a.shape.window);
      AddToSoftmax(state, out, s, a.factor);
      AddValues(out, s, at);
    }
  }
  ptx::WaitForCopies();  // a block without a tile has not waited for its queries
  __syncthreads();
  if (active) WriteOutput(m, a, out, state);
}

}  // namespace ingot::kernels::cuda
