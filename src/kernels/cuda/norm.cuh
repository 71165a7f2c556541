// RMSNorm and its gradient. A block computes a row, or in the backward pass kNormRows of them one after the other. Its
// number of threads and each sum's tree depend only on the width, so a row's bits depend only on the row.
//
// NormKernel. Grid: x = row. Reads each number once, unless the row is wider than `span`, which stays in registers:
// then it reads the rest again.
//
// NormGradientKernel. Grid: x = block of kNormRows rows. A thread has the same columns of all its rows, so the block's
// sum for the weights is in registers; in a wider row it is in memory. SumPartsKernel adds the blocks' sums.
//
// The bf16 result is rounded where kernels/layers.h rounds: the sum, the normalized row, and its product with the
// weight.
#pragma once

#include "kernels/cuda/layers_args.h"
#include "kernels/cuda/row_values.cuh"

namespace ingot::kernels::cuda {

// The numbers of a row that a thread holds.
template <typename T>
using Held = Accumulator<T>[kNormHeld][kVector<T>];

template <typename T>
__device__ __forceinline__ int64_t NormSpan() {
  return static_cast<int64_t>(blockDim.x) * kVector<T> * kNormHeld;
}
// The place in the row of the thread's vector i.
template <typename T>
__device__ __forceinline__ int64_t NormPlace(int64_t begin, int i) {
  return begin + (static_cast<int64_t>(i) * blockDim.x + threadIdx.x) * kVector<T>;
}

template <typename T>
__device__ __forceinline__ void LoadHeld(Held<T>& to, const T* row, int64_t begin, int64_t n) {
#pragma unroll
  for (int i = 0; i < kNormHeld; ++i) Load(to[i], row, NormPlace<T>(begin, i), n);
}

// to = x + plus, rounded and stored in `sum`.
template <typename T>
__device__ __forceinline__ void AddHeld(Held<T>& to, const T* plus, T* sum, int64_t begin, int64_t n) {
#pragma unroll
  for (int i = 0; i < kNormHeld; ++i) {
    const int64_t at = NormPlace<T>(begin, i);
    Accumulator<T> more[kVector<T>];
    Load(more, plus, at, n);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) to[i][e] = WideOf(Rounded(Add(more[e], to[i][e]), T{}));
    Store(sum, to[i], at, n);
  }
}

template <typename T>
__global__ void __launch_bounds__(kNormMaxThreads) NormKernel(const NormArgs<T> a) {
  using Acc = Accumulator<T>;
  __shared__ Acc memory[kNormMaxThreads / 32];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * a.n, span = NormSpan<T>();
  const T* const from = a.plus == nullptr ? a.x : a.sum;
  Held<T> s;
  Acc squares = 0;
  int64_t begin = 0;
  for (;; begin += span) {
    LoadHeld<T>(s, a.x + row, begin, a.n);
    if (a.plus != nullptr) AddHeld<T>(s, a.plus + row, a.sum + row, begin, a.n);
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) {
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) squares = MulAdd(s[i][e], s[i][e], squares);
    }
    if (begin + span >= a.n) break;
  }
  const Acc mean = Div(BlockSum(squares, memory), static_cast<Acc>(a.n)), inverse = Div(Acc(1), Root(Add(mean, a.eps)));
  if (a.inverse != nullptr && threadIdx.x == 0) a.inverse[blockIdx.x] = inverse;
  for (bool held = true; begin >= 0; begin -= span, held = false) {
    if (!held) LoadHeld<T>(s, from + row, begin, a.n);
#pragma unroll
    for (int i = 0; i < kNormHeld; ++i) {
      const int64_t at = NormPlace<T>(begin, i);
      Acc weight[kVector<T>];
      Load(weight, a.weight, at, a.n);
#pragma unroll
      for (int e = 0; e < kVector<T>; ++e) {
        s[i][e] = Mul(WideOf(Rounded(Mul(s[i][e], inverse), T{})), weight[e]);
      }
      Store(a.y + row, s[i], at, a.n);
    }
  }
}

// A row's part of the gradient.
template <typename T>
struct NormGradientRow {
  Accumulator<T> inverse, shift;
  const T* by_sum;  // null = none
  T* grad_x;
};

// Writes grad_x of the numbers that the thread holds, and adds to its sums for the weights.
template <typename T>
__device__ __forceinline__ void PutGradient(const NormGradientRow<T>& r, Held<T>& grad, const Held<T>& x,
                                            const T* weights, Held<T>& part, int64_t begin, int64_t n) {
#pragma unroll
  for (int i = 0; i < kNormHeld; ++i) {
    const int64_t at = NormPlace<T>(begin, i);
    Accumulator<T> weight[kVector<T>], past[kVector<T>];
    Load(weight, weights, at, n);
    if (r.by_sum != nullptr) Load(past, r.by_sum, at, n);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) {
      part[i][e] = MulAdd(grad[i][e], Mul(x[i][e], r.inverse), part[i][e]);
      const auto by_normed = Add(Mul(grad[i][e], weight[e]), -Mul(x[i][e], r.shift));
      grad[i][e] = Mul(by_normed, r.inverse);
      if (r.by_sum != nullptr) grad[i][e] = Add(past[e], grad[i][e]);
    }
    Store(r.grad_x, grad[i], at, n);
  }
}

template <typename T>
__device__ __forceinline__ void LoadPart(Held<T>& part, const Accumulator<T>* from, int64_t begin, int64_t n) {
#pragma unroll
  for (int i = 0; i < kNormHeld; ++i) Load(part[i], from, NormPlace<T>(begin, i), n);
}
template <typename T>
__device__ __forceinline__ void StorePart(const Held<T>& part, Accumulator<T>* to, int64_t begin, int64_t n) {
#pragma unroll
  for (int i = 0; i < kNormHeld; ++i) Store(to, part[i], NormPlace<T>(begin, i), n);
}

template <typename T>
__global__ void __launch_bounds__(kNormMaxThreads) NormGradientKernel(const NormGradientArgs<T> a) {
  using Acc = Accumulator<T>;
  __shared__ Acc memory[kNormMaxThreads / 32];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kNormRows, last = min(first + kNormRows, a.rows);
  const int64_t span = NormSpan<T>();
  const bool wide = span < a.n;
  Acc* const sums = a.parts + blockIdx.x * a.n;
  Held<T> grad, x, part = {};
  for (int64_t r = first; r < last; ++r) {
    const int64_t row = r * a.n;
    Acc dot = 0;
    int64_t begin = 0;
    for (;; begin += span) {
      LoadHeld<T>(grad, a.grad + row, begin, a.n);
      LoadHeld<T>(x, a.x + row, begin, a.n);
#pragma unroll
      for (int i = 0; i < kNormHeld; ++i) {
        Acc weight[kVector<T>];
        Load(weight, a.weight, NormPlace<T>(begin, i), a.n);
#pragma unroll
        for (int e = 0; e < kVector<T>; ++e) dot = MulAdd(Mul(grad[i][e], weight[e]), x[i][e], dot);
      }
      if (begin + span >= a.n) break;
    }
    const Acc inverse = a.inverse[r], mean = Div(BlockSum(dot, memory), static_cast<Acc>(a.n));
    const NormGradientRow<T> of{inverse, Mul(Mul(mean, inverse), inverse),
                                a.by_sum == nullptr ? nullptr : a.by_sum + row, a.grad_x + row};
    for (bool held = true; begin >= 0; begin -= span, held = false) {
      if (!held) {
        LoadHeld<T>(grad, a.grad + row, begin, a.n);
        LoadHeld<T>(x, a.x + row, begin, a.n);
      }
      if (wide && r > first) LoadPart<T>(part, sums, begin, a.n);
      if (wide && r == first) std::memset(&part, 0, sizeof(part));
      PutGradient<T>(of, grad, x, a.weight, part, begin, a.n);
      if (wide) StorePart<T>(part, sums, begin, a.n);
    }
  }
  if (!wide) StorePart<T>(part, sums, 0, a.n);
}

// Grid: x = 32 columns. Warp w adds parts w, w + 32, ... in this order, and then the first warp adds the warps' sums in
// order.
template <typename T>
__global__ void __launch_bounds__(kSumThreads) SumPartsKernel(const SumPartsArgs<T> a) {
  constexpr int kWarps = kSumThreads / 32;
  using Acc = Accumulator<T>;
  __shared__ Acc sums[kWarps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  Acc sum = 0;
  if (column < a.n) {
#pragma unroll 4
    for (int64_t part = warp; part < a.count; part += kWarps) sum = Add(sum, a.of[part * a.n + column]);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= a.n) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum = Add(sum, sums[w][lane]);
  a.to[column] = Rounded(sum, T{});
}

}  // namespace ingot::kernels::cuda
