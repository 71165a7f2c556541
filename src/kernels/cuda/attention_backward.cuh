// Computes tree attention gradients on CUDA. Four kernels run in this order, without atomic operations.
//
//   DeltaKernel     per (row, head): the dot product of the output and its gradient
//   GradQKernel     per block of rows, over the tiles it sees:      ds = p (dp - delta), grad_q = scale * ds k
//   GradKeysKernel  per tile of keys, over the blocks that see it:  grad_v = p^T grad_out, grad_k = scale * ds^T q
//   GradSinksKernel per head: a sink has probability e^(sink - lse) and no value
//
// Two kernels recompute the probabilities from the log-sum-exp. A group's heads are rows of one block, so the sum over
// rows includes the sum over heads.
#pragma once

#include "kernels/cuda/attention_tile.cuh"

namespace ingot::kernels::cuda {

template <typename T>
__global__ void __launch_bounds__(kThreads) DeltaKernel(const BackwardArgs<T> a) {
  using Acc = Accumulator<T>;
  const int lane = threadIdx.x % kLanes;
  const int64_t entry = static_cast<int64_t>(blockIdx.x) * (kThreads / kLanes) + threadIdx.x / kLanes;
  const bool valid = entry < a.rows * a.shape.heads;
  Acc sum = 0;
  for (int64_t d = lane; valid && d < a.shape.head_dim; d += kLanes) {
    sum += Wide(a.out[entry * a.shape.head_dim + d]) * Wide(a.grad_out[entry * a.shape.head_dim + d]);
  }
  sum = RowSum(sum);
  if (valid && lane == 0) a.delta[entry] = sum;
}

// Computes the thread's probabilities for a tile and the gradients of their scores.
template <typename T, typename Acc>
__device__ void ScoreGradients(Acc (&p)[kPiece][kPiece], Acc (&ds)[kPiece][kPiece], TileMemory<Acc>& m,
                               const BackwardArgs<T>& a, const RowPlace& rows, int64_t tile) {
  DotTile(p, m, a.q, m.row_at, a.k, m.key_at, a.shape.head_dim);
  DotTile(ds, m, a.grad_out, m.row_at, a.v, m.value_at, a.shape.head_dim);
  const Acc scale = static_cast<Acc>(a.shape.scale * kLog2E);
  for (int i = 0; i < kPiece; ++i) {
    // A row that does not exist or sees no key contributes to no gradient.
    if (!rows.valid[i] || a.lse[rows.entry[i]] == Acc(-INFINITY)) {
      for (int j = 0; j < kPiece; ++j) p[i][j] = ds[i][j] = Acc(0);
      continue;
    }
    const Acc lse = static_cast<Acc>(static_cast<double>(a.lse[rows.entry[i]]) * kLog2E);
    const Acc delta = a.delta[rows.entry[i]];
    for (int j = 0; j < kPiece; ++j) {
      p[i][j] = Sees(m, a.shape, rows, i, tile, j) ? Exp2(p[i][j] * scale - lse) : Acc(0);
      ds[i][j] = p[i][j] * (ds[i][j] - delta);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) GradQKernel(const BackwardArgs<T> a) {
  using Acc = Accumulator<T>;
  __shared__ TileMemory<Acc> m;
  const RowBlock block = a.plan.blocks[blockIdx.x];
  const PlannedSequence sequence = a.plan.sequences[block.sequence];
  const int64_t kv_head = blockIdx.y, d0 = static_cast<int64_t>(blockIdx.z) * kOutDims, head_dim = a.shape.head_dim;
  const int y = threadIdx.x / kLanes, x = threadIdx.x % kLanes;
  const RowPlace rows = PlaceRows(m, a.shape, a.plan, block, kv_head);
  Acc grad[kPiece][kOutPiece] = {};
  for (int32_t r = block.first_run; r < block.last_run; ++r) {
    const TileRun run = a.plan.runs[r];
    for (int64_t tile = run.first; tile < run.last; ++tile) {
      Acc p[kPiece][kPiece], ds[kPiece][kPiece];
      PlaceKeys(m, a.shape, a.plan, sequence, tile, kv_head);
      ScoreGradients(p, ds, m, a, rows, tile);
      for (int i = 0; i < kPiece; ++i) {
        for (int j = 0; j < kPiece; ++j) m.weight[y * kPiece + i][x + j * kLanes] = ds[i][j];
      }
      AddProduct(grad, m, a.k, m.key_at, d0, head_dim);
    }
  }
  const Acc scale = static_cast<Acc>(a.shape.scale);
  for (int i = 0; i < kPiece; ++i) {
    if (!rows.valid[i]) continue;
    ForColumns(d0, head_dim,
               [&](int j, int64_t d) { Put(a.grad_q + rows.entry[i] * head_dim + d, grad[i][j] * scale); });
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) GradKeysKernel(const BackwardArgs<T> a) {
  using Acc = Accumulator<T>;
  __shared__ TileMemory<Acc> m;
  const KeyBlock keys = a.plan.key_blocks[blockIdx.x];
  const PlannedSequence sequence = a.plan.sequences[0];
  const int64_t kv_head = blockIdx.y, d0 = static_cast<int64_t>(blockIdx.z) * kOutDims, head_dim = a.shape.head_dim;
  const int y = threadIdx.x / kLanes, x = threadIdx.x % kLanes;
  PlaceKeys(m, a.shape, a.plan, sequence, keys.tile, kv_head);
  Acc grad_k[kPiece][kOutPiece] = {}, grad_v[kPiece][kOutPiece] = {};  // for the thread's four keys 4y..4y+3
  for (int32_t r = keys.first_run; r < keys.last_run; ++r) {
    const Run run = a.plan.block_runs[r];
    for (int32_t b = run.first; b < run.last; ++b) {
      Acc p[kPiece][kPiece], ds[kPiece][kPiece];
      const RowPlace rows = PlaceRows(m, a.shape, a.plan, a.plan.blocks[b], kv_head);
      ScoreGradients(p, ds, m, a, rows, keys.tile);
      // Transposed, because the sums run over rows.
      for (int i = 0; i < kPiece; ++i) {
        for (int j = 0; j < kPiece; ++j) m.weight[x + j * kLanes][y * kPiece + i] = p[i][j];
      }
      AddProduct(grad_v, m, a.grad_out, m.row_at, d0, head_dim);
      for (int i = 0; i < kPiece; ++i) {
        for (int j = 0; j < kPiece; ++j) m.weight[x + j * kLanes][y * kPiece + i] = ds[i][j];
      }
      AddProduct(grad_k, m, a.q, m.row_at, d0, head_dim);
    }
  }
  const Acc scale = static_cast<Acc>(a.shape.scale);
  for (int i = 0; i < kPiece; ++i) {
    const int64_t at = m.key_at[y * kPiece + i];
    if (at < 0) continue;
    ForColumns(d0, head_dim, [&](int j, int64_t d) {
      a.sum_k[at + d] += grad_k[i][j] * scale;
      a.sum_v[at + d] += grad_v[i][j];
    });
  }
}

// One block per head. Threads add strided rows in fp64, then add their sums in a tree.
template <typename T>
__global__ void __launch_bounds__(kThreads) GradSinksKernel(const BackwardArgs<T> a) {
  __shared__ double part[kThreads];
  const int thread = threadIdx.x;
  const int64_t head = blockIdx.x;
  double sum = 0;
  for (int64_t row = thread; row < a.rows; row += kThreads) {
    const int64_t entry = row * a.shape.heads + head;
    const double lse = static_cast<double>(a.lse[entry]);
    if (isinf(lse)) continue;
    sum -= exp(static_cast<double>(a.sinks[head]) - lse) * static_cast<double>(a.delta[entry]);
  }
  part[thread] = sum;
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (thread < step) part[thread] += part[thread + step];
  }
  if (thread == 0) a.grad_sinks[head] = static_cast<Accumulator<T>>(part[0]);
}

}  // namespace ingot::kernels::cuda
