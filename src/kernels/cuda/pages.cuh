// Writes the keys and values of a batch's rows into pages, in one launch with the norm and RoPE of queries and keys. One
// warp computes or copies a head of a row: the queries' heads, then the keys', then the values'. The bits of a rotated
// head are those of HeadKernel (rotate.cuh). Copies keep every bit, also of NaNs.
//
// Grid: x = kPagesWarps heads. Bound by memory: reads and writes each number once.
#pragma once

#include <cassert>

#include "kernels/cuda/pages_args.h"
#include "kernels/cuda/rotate.cuh"

namespace ingot::kernels::cuda {

template <typename T>
__device__ __forceinline__ void CopyHead(T* to, const T* from, int64_t depth) {
  constexpr int kEach = 16 / sizeof(T);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool whole =
      depth % kEach == 0 && (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16 == 0;
  if (whole) {
    for (int64_t at = lane; at < depth / kEach; at += 32) {
      reinterpret_cast<uint4*>(to)[at] = reinterpret_cast<const uint4*>(from)[at];
    }
    return;
  }
  for (int64_t at = lane; at < depth; at += 32) to[at] = from[at];
}

template <typename T>
__global__ void __launch_bounds__(kPagesThreads) PagesKernel(const PagesArgs<T> a) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kPagesWarps + threadIdx.x / 32;
  const int64_t row = index / a.heads_of_row();
  if (row >= a.rows) return;
  int64_t head = index - row * a.heads_of_row();
  const auto turn = [&](const T* x, const T* weight, T* y) {
    const int64_t table = RowOfTables<T>(a.position, row, a.positions, a.depth / 2);
    TurnHead<T>(x, weight, a.eps, a.cos + table, a.sin + table, a.depth, y, nullptr);
  };
  if (head < a.heads) {
    const int64_t place = (row * a.heads + head) * a.depth;
    return turn(a.q + place, a.q_weight, a.y + place);
  }
  head -= a.heads;
  const int64_t slot = a.slot[row];
  if (slot == -1) return;
  assert(slot >= 0 && slot < a.slots);
  const bool key = head < a.kv_heads;
  if (!key) head -= a.kv_heads;
  const int64_t from = (row * a.kv_heads + head) * a.depth, to = (slot * a.kv_heads + head) * a.depth;
  if (!key) return CopyHead(a.v_pages + to, a.v + from, a.depth);
  if (a.cos == nullptr) return CopyHead(a.k_pages + to, a.k + from, a.depth);
  turn(a.k + from, a.k_weight, a.k_pages + to);
}

}  // namespace ingot::kernels::cuda
