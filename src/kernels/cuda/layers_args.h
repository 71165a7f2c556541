// Arguments for the CUDA kernels of a layer's parts between its products (norm.cuh, rotate.cuh, swiglu.cuh): plain
// values and device pointers, and the grids. All matrices are dense and row-major. T is float, double, or BFloat16,
// whose sums and gradients are computed in fp32 and rounded when stored.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/cuda/row_sizes.h"

namespace ingot::kernels::cuda {

inline constexpr int kNormMaxThreads = 512;
inline constexpr int kNormHeld = 2;   // vectors of a row that a thread keeps in registers
inline constexpr int kNormRows = 16;  // whose gradients a block computes
inline constexpr int kSumThreads = 1024;
inline constexpr int kHeadThreads = 256;
inline constexpr int kHeadWarps = kHeadThreads / 32;
inline constexpr int kHeadsOfBlock = 64;  // whose gradients a block computes
inline constexpr int kSwiGluThreads = 256;

// Returns the threads of a block that computes a norm over n numbers. It depends on nothing else, so a row's bits
// depend only on the row.
template <typename T>
unsigned NormThreads(int64_t n) {
  const int64_t warps = std::max<int64_t>(1, Ceil(n, kVector<T> * 32));
  return static_cast<unsigned>(std::min<int64_t>(kNormMaxThreads, 32 * warps));
}

// y = s / sqrt(mean(s^2) + eps) * weight over rows of n, where s is x or, with `plus`, x + plus rounded to T.
template <typename T>
struct NormArgs {
  int64_t rows, n;
  const T* x;       // [rows, n]
  const T* plus;    // [rows, n]; null = none
  T* sum;           // [rows, n], receives s; only with `plus`
  const T* weight;  // [n]
  Accumulator<T> eps;
  T* y;                     // [rows, n]
  Accumulator<T>* inverse;  // [rows], receives 1 / sqrt(...); null = not needed
};

template <typename T>
struct NormGradientArgs {
  int64_t rows, n;
  const T* grad;                  // [rows, n], with respect to y
  const T* by_sum;                // [rows, n], with respect to s, past the norm; null = none
  const T* x;                     // [rows, n], s
  const T* weight;                // [n]
  const Accumulator<T>* inverse;  // [rows]
  T* grad_x;                      // [rows, n], with respect to s
  Accumulator<T>* parts;          // [blocks(), n], of grad_weight

  int64_t blocks() const { return Ceil(rows, kNormRows); }
};

// to[c] = the sum of of[0..count)[c].
template <typename T>
struct SumPartsArgs {
  int64_t count, n;
  const Accumulator<T>* of;  // [count, n]
  T* to;                     // [n]
};

// RoPE (half-rotation) of x [rows, heads, depth], after a norm over depth if there is a weight. kernels/layers.h
template <typename T>
struct HeadArgs {
  int64_t rows, heads, depth;  // depth is even
  const T* x;
  const T* weight;  // [depth]; null = no norm
  Accumulator<T> eps;
  const T *cos, *sin;       // [positions, depth / 2]
  const int64_t* position;  // [rows]
  int64_t positions;        // of the tables
  T* y;                     // as x
  Accumulator<T>* inverse;  // [rows, heads]; null = no norm, or not needed

  int64_t blocks() const { return Ceil(rows * heads, kHeadWarps); }
};

template <typename T>
struct HeadGradientArgs {
  int64_t rows, heads, depth;
  const T* grad;                  // [rows, heads, depth]
  const T* x;                     // as grad; null = no norm
  const T* weight;                // [depth]; null = no norm
  const Accumulator<T>* inverse;  // [rows, heads]; null = no norm
  const T *cos, *sin;             // [positions, depth / 2]
  const int64_t* position;        // [rows]
  int64_t positions;
  T* grad_x;              // as grad
  Accumulator<T>* parts;  // [blocks(), depth], of grad_weight; null = no norm

  int64_t blocks() const { return Ceil(rows * heads, kHeadsOfBlock); }
  // A block's sums: for each of its warps, `depth` numbers rounded up to pairs of each half.
  INGOT_HOST_DEVICE int64_t pairs() const { return Ceil(depth / 2, 2); }
  size_t shared_bytes() const {
    return weight == nullptr ? 0 : static_cast<size_t>(kHeadWarps * 4 * pairs()) * sizeof(Accumulator<T>);
  }
};

// y = silu(gate) * up, elementwise.
template <typename T>
struct SwiGluArgs {
  int64_t count;
  const T *gate, *up;
  T* y;

  int64_t blocks() const { return Ceil(count, kSwiGluThreads * kVector<T>); }
};

template <typename T>
struct SwiGluGradientArgs {
  int64_t count;
  const T *grad, *gate, *up;
  T *grad_gate, *grad_up;

  int64_t blocks() const { return Ceil(count, kSwiGluThreads * kVector<T>); }
};

}  // namespace ingot::kernels::cuda
