// RoPE of heads, after an RMSNorm of each head if there is a weight, and the gradients. One warp computes a head of a
// row, whose bits depend on nothing else.
//
// A lane has pairs of neighboring numbers of the first half and the same places of the second half. The bf16 result is
// rounded where kernels/layers.h rounds: the normalized head, its product with the weight, and the rotated head.
//
// HeadKernel. Grid: x = kHeadWarps heads. HeadGradientKernel. Grid: x = kHeadsOfBlock heads, of which warp w has those
// at w, w + kHeadWarps, ... Each warp adds up its part of the weights' gradient in shared memory, where a lane has its
// own places. Then the block adds its warps' sums in order, and SumPartsKernel those of the blocks.
#pragma once

#include <cassert>

#include "kernels/cuda/layers_args.h"
#include "kernels/cuda/row_values.cuh"

namespace ingot::kernels::cuda {

constexpr int kPair = 2;

// A lane's pair of a head's first half, and the one at the same place of the second half.
template <typename S>
struct HeadPairs {
  S first[kPair], second[kPair];
};

template <typename T>
__device__ __forceinline__ HeadPairs<Accumulator<T>> LoadPairs(const T* head, int64_t at, int64_t half) {
  HeadPairs<Accumulator<T>> p;
  Load(p.first, head, at, half);
  Load(p.second, head + half, at, half);
  return p;
}

template <typename T>
__device__ __forceinline__ void StorePairs(T* head, const HeadPairs<Accumulator<T>>& p, int64_t at, int64_t half) {
  Store(head, p.first, at, half);
  Store(head + half, p.second, at, half);
}

// Rotates by the angle, or with sign -1 by its opposite.
template <typename T>
__device__ __forceinline__ void Rotate(HeadPairs<Accumulator<T>>& p, const T* cos, const T* sin, Accumulator<T> sign,
                                       int64_t at, int64_t half) {
  Accumulator<T> c[kPair], s[kPair];
  Load(c, cos, at, half);
  Load(s, sin, at, half);
#pragma unroll
  for (int e = 0; e < kPair; ++e) {
    const auto sine = Mul(s[e], sign), first = p.first[e];
    p.first[e] = MulAdd(first, c[e], Mul(-p.second[e], sine));
    p.second[e] = MulAdd(p.second[e], c[e], Mul(first, sine));
  }
}

template <typename T>
__device__ __forceinline__ int64_t RowOfTables(const int64_t* position, int64_t row, int64_t positions, int64_t half) {
  const int64_t at = position[row];
  assert(at >= 0 && at < positions);
  return at * half;
}

// Writes a warp's head. weight: null = no norm. inverse: receives the norm's factor; null = not needed.
template <typename T>
__device__ __forceinline__ void TurnHead(const T* x, const T* weight, Accumulator<T> eps, const T* cos, const T* sin,
                                         int64_t depth, T* y, Accumulator<T>* inverse_of) {
  using Acc = Accumulator<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t half = depth / 2;
  Acc inverse = 1;
  if (weight != nullptr) {
    Acc squares = 0;
    for (int64_t at = lane * kPair; at < half; at += 32 * kPair) {
      const HeadPairs<Acc> p = LoadPairs(x, at, half);
#pragma unroll
      for (int e = 0; e < kPair; ++e)
        squares = MulAdd(p.second[e], p.second[e], MulAdd(p.first[e], p.first[e], squares));
    }
    const Acc mean = Div(WarpSum(squares), static_cast<Acc>(depth));
    inverse = Div(Acc(1), Root(Add(mean, eps)));
    if (inverse_of != nullptr && lane == 0) *inverse_of = inverse;
  }
  for (int64_t at = lane * kPair; at < half; at += 32 * kPair) {
    HeadPairs<Acc> p = LoadPairs(x, at, half);
    if (weight != nullptr) {
      const HeadPairs<Acc> by = LoadPairs(weight, at, half);
      const auto scaled = [&](Acc value, Acc factor) {
        return WideOf(Rounded(Mul(WideOf(Rounded(Mul(value, inverse), T{})), factor), T{}));
      };
#pragma unroll
      for (int e = 0; e < kPair; ++e) {
        p.first[e] = scaled(p.first[e], by.first[e]);
        p.second[e] = scaled(p.second[e], by.second[e]);
      }
    }
    Rotate(p, cos, sin, Acc(1), at, half);
    StorePairs(y, p, at, half);
  }
}

template <typename T>
__global__ void __launch_bounds__(kHeadThreads) HeadKernel(const HeadArgs<T> a) {
  const int64_t head = static_cast<int64_t>(blockIdx.x) * kHeadWarps + threadIdx.x / 32, place = head * a.depth;
  if (head >= a.rows * a.heads) return;
  const int64_t table = RowOfTables<T>(a.position, head / a.heads, a.positions, a.depth / 2);
  TurnHead<T>(a.x + place, a.weight, a.eps, a.cos + table, a.sin + table, a.depth, a.y + place,
              a.inverse == nullptr ? nullptr : a.inverse + head);
}

// The gradient of a norm from `turned`, the gradient of the normed head. Adds the weights' part to `sums`, which has
// four planes of `pairs` numbers: the first and second numbers of pairs in the first half, and those of the second
// half.
template <typename S>
__device__ __forceinline__ void HeadNormGradient(HeadPairs<S>& turned, const HeadPairs<S>& x,
                                                 const HeadPairs<S>& weight, S inverse, S shift, S* sums,
                                                 int64_t pairs) {
  const auto one = [&](S& grad, S value, S by, S& sum) {
    sum = MulAdd(grad, Mul(value, inverse), sum);
    grad = Mul(Add(Mul(grad, by), -Mul(value, shift)), inverse);
  };
#pragma unroll
  for (int e = 0; e < kPair; ++e) {
    one(turned.first[e], x.first[e], weight.first[e], sums[e * pairs]);
    one(turned.second[e], x.second[e], weight.second[e], sums[(kPair + e) * pairs]);
  }
}

template <typename T>
__device__ __forceinline__ void HeadGradient(const HeadGradientArgs<T>& a, int64_t head, Accumulator<T>* sums) {
  using Acc = Accumulator<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t half = a.depth / 2, place = head * a.depth;
  const int64_t table = RowOfTables<T>(a.position, head / a.heads, a.positions, half);
  const auto turned = [&](int64_t at) {
    HeadPairs<Acc> p = LoadPairs(a.grad + place, at, half);
    Rotate(p, a.cos + table, a.sin + table, Acc(-1), at, half);
    return p;
  };
  Acc inverse = 1, shift = 0;
  if (a.weight != nullptr) {
    Acc dot = 0;
    for (int64_t at = lane * kPair; at < half; at += 32 * kPair) {
      const HeadPairs<Acc> grad = turned(at), x = LoadPairs(a.x + place, at, half),
                           weight = LoadPairs(a.weight, at, half);
#pragma unroll
      for (int e = 0; e < kPair; ++e) {
        dot = MulAdd(Mul(grad.first[e], weight.first[e]), x.first[e], dot);
        dot = MulAdd(Mul(grad.second[e], weight.second[e]), x.second[e], dot);
      }
    }
    inverse = a.inverse[head];
    shift = Mul(Mul(Div(WarpSum(dot), static_cast<Acc>(a.depth)), inverse), inverse);
  }
  for (int64_t at = lane * kPair; at < half; at += 32 * kPair) {
    HeadPairs<Acc> grad = turned(at);
    if (a.weight != nullptr) {
      HeadNormGradient(grad, LoadPairs(a.x + place, at, half), LoadPairs(a.weight, at, half), inverse, shift,
                       sums + at / kPair, a.pairs());
    }
    StorePairs(a.grad_x + place, grad, at, half);
  }
}

template <typename T>
__global__ void __launch_bounds__(kHeadThreads) HeadGradientKernel(const HeadGradientArgs<T> a) {
  using Acc = Accumulator<T>;
  extern __shared__ __align__(16) char memory[];
  Acc* const all = reinterpret_cast<Acc*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kHeadsOfBlock, half = a.depth / 2;
  const int64_t last = min(first + kHeadsOfBlock, a.rows * a.heads), of_warp = 4 * a.pairs();
  if (a.weight != nullptr) {
    for (int64_t i = threadIdx.x; i < kHeadWarps * of_warp; i += kHeadThreads) all[i] = 0;
    __syncthreads();
  }
  for (int64_t head = first + warp; head < last; head += kHeadWarps) HeadGradient(a, head, all + warp * of_warp);
  if (a.weight == nullptr) return;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < of_warp; i += kHeadThreads) {
    const int64_t plane = i / a.pairs(), within = (i - plane * a.pairs()) * kPair + plane % kPair;
    Acc sum = all[i];
#pragma unroll
    for (int w = 1; w < kHeadWarps; ++w) sum = Add(sum, all[w * of_warp + i]);
    if (within < half) a.parts[blockIdx.x * a.depth + plane / kPair * half + within] = sum;
  }
}

}  // namespace ingot::kernels::cuda
