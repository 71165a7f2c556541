// Computes the forward pass of tree attention on CUDA: an online softmax over key tiles.
//
// Grid: x = block of rows (plan.blocks), y = kv head, z = kOutDims output columns. Each row adds its tiles in ascending
// order, and a hidden key adds exactly zero. So a row's bits depend only on its own keys, as on the CPU.
#pragma once

#include "kernels/cuda/attention_tile.cuh"

namespace ingot::kernels::cuda {

// A row's softmax so far: the largest score (base 2) and the sum of 2^(score - largest).
template <typename Acc>
struct SoftmaxState {
  Acc top[kPiece], sum[kPiece];
};

// Returns the state with only the sink.
template <typename T, typename Acc>
__device__ SoftmaxState<Acc> BeginSoftmax(const ForwardArgs<T>& a, const RowPlace& rows) {
  SoftmaxState<Acc> state;
  for (int i = 0; i < kPiece; ++i) {
    state.top[i] = -INFINITY;
    if (a.sinks != nullptr && rows.valid[i]) {
      state.top[i] = static_cast<Acc>(static_cast<double>(a.sinks[rows.entry[i] % a.shape.heads]) * kLog2E);
    }
    state.sum[i] = state.top[i] == Acc(-INFINITY) ? Acc(0) : Acc(1);
  }
  return state;
}

// Adds a tile's dot products to the softmax. Writes the probabilities, relative to the new largest score, to m.weight.
// Returns the factor for earlier sums in `rescale`.
template <typename Acc>
__device__ void AddToSoftmax(SoftmaxState<Acc>& state, Acc (&rescale)[kPiece], TileMemory<Acc>& m, const Shape& s,
                             const RowPlace& rows, int64_t tile, const Acc (&dot)[kPiece][kPiece]) {
  const int y = threadIdx.x / kLanes, x = threadIdx.x % kLanes;
  const Acc scale = static_cast<Acc>(s.scale * kLog2E);
  for (int i = 0; i < kPiece; ++i) {
    Acc score[kPiece], top = state.top[i];
    for (int j = 0; j < kPiece; ++j) {
      score[j] = Sees(m, s, rows, i, tile, j) ? dot[i][j] * scale : Acc(-INFINITY);
      top = Greater(top, score[j]);
    }
    top = RowMax(top);
    // A row that has not seen a key yet keeps its zeros, because -infinity - -infinity is NaN. A NaN score must reach
    // the output, although the maximum ignores it.
    rescale[i] = top == Acc(-INFINITY) ? Acc(1) : Exp2(state.top[i] - top);
    Acc sum = 0;
    for (int j = 0; j < kPiece; ++j) {
      const Acc p = score[j] == Acc(-INFINITY) ? Acc(0) : Exp2(score[j] - top);
      sum += p;
      m.weight[y * kPiece + i][x + j * kLanes] = p;
    }
    state.sum[i] = state.sum[i] * rescale[i] + RowSum(sum);
    state.top[i] = top;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) ForwardKernel(const ForwardArgs<T> a) {
  using Acc = Accumulator<T>;
  __shared__ TileMemory<Acc> m;
  const RowBlock block = a.plan.blocks[blockIdx.x];
  const PlannedSequence sequence = a.plan.sequences[block.sequence];
  const int64_t kv_head = blockIdx.y, d0 = static_cast<int64_t>(blockIdx.z) * kOutDims, head_dim = a.shape.head_dim;
  const RowPlace rows = PlaceRows(m, a.shape, a.plan, block, kv_head);
  SoftmaxState<Acc> state = BeginSoftmax<T, Acc>(a, rows);
  Acc out[kPiece][kOutPiece] = {};
  for (int32_t r = block.first_run; r < block.last_run; ++r) {
    const TileRun run = a.plan.runs[r];
    for (int64_t tile = run.first; tile < run.last; ++tile) {
      Acc dot[kPiece][kPiece], rescale[kPiece];
      PlaceKeys(m, a.shape, a.plan, sequence, tile, kv_head);
      DotTile(dot, m, a.q, m.row_at, a.k, m.key_at, head_dim);
      AddToSoftmax(state, rescale, m, a.shape, rows, tile, dot);
      for (int i = 0; i < kPiece; ++i) {
        for (int j = 0; j < kOutPiece; ++j) out[i][j] *= rescale[i];
      }
      AddProduct(out, m, a.v, m.value_at, d0, head_dim);
    }
  }
  for (int i = 0; i < kPiece; ++i) {
    if (!rows.valid[i]) continue;
    const Acc inverse = state.sum[i] == Acc(0) ? Acc(0) : Acc(1) / state.sum[i];
    ForColumns(d0, head_dim, [&](int j, int64_t d) { Put(a.out + rows.entry[i] * head_dim + d, out[i][j] * inverse); });
    if (a.lse != nullptr && d0 == 0 && threadIdx.x % kLanes == 0) {
      a.lse[rows.entry[i]] =
          state.sum[i] == Acc(0)
              ? Acc(-INFINITY)
              : static_cast<Acc>(static_cast<double>(state.top[i]) * kLn2 + log(static_cast<double>(state.sum[i])));
    }
  }
}

}  // namespace ingot::kernels::cuda
