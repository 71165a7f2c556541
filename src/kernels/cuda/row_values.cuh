// Rows that threads share: neighboring numbers for each thread, and sums over a block's threads in a fixed tree.
//
// Which numbers a thread has depends only on their places in the row. So a row's sums have the same bits wherever the
// row lies, and whether or not its address allows wide accesses.
#pragma once

#include <cstring>

#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/ptx.cuh"

namespace ingot::kernels::cuda {

template <int kBytes>
struct WordOf {
  using Type = uint4;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};

// N neighboring numbers that are read or written by the widest accesses that their size allows.
template <typename T, int N>
struct Neighbors {
  using Word = typename WordOf<N * sizeof(T)>::Type;
  static constexpr int kWords = N * sizeof(T) / sizeof(Word);
  static_assert(kWords * sizeof(Word) == N * sizeof(T));

  static __device__ __forceinline__ bool Whole(const T* row, int64_t at, int64_t n) {
    return at + N <= n && reinterpret_cast<uintptr_t>(row + at) % sizeof(Word) == 0;
  }
};

// Reads numbers [at, at + N) of a row of n. Those outside are 0.
template <int N, typename T>
__device__ __forceinline__ void Load(Accumulator<T> (&to)[N], const T* row, int64_t at, int64_t n) {
  using Near = Neighbors<T, N>;
  T read[N];
  if (Near::Whole(row, at, n)) {
    typename Near::Word words[Near::kWords];
#pragma unroll
    for (int w = 0; w < Near::kWords; ++w) words[w] = reinterpret_cast<const typename Near::Word*>(row + at)[w];
    std::memcpy(read, words, sizeof(read));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) read[i] = at + i < n ? row[at + i] : T{};
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = WideOf(read[i]);
}

// Rounds to nearest, ties to even. A NaN in bf16 is 0x7fff.
__device__ __forceinline__ float Rounded(float x, float) { return x; }
__device__ __forceinline__ double Rounded(double x, double) { return x; }
__device__ __forceinline__ BFloat16 Rounded(float x, BFloat16) {
  return {static_cast<uint16_t>(ptx::PackBFloat16(x, 0))};
}

// Writes numbers [at, at + N) of a row of n, each rounded to T.
template <int N, typename T>
__device__ __forceinline__ void Store(T* row, const Accumulator<T> (&from)[N], int64_t at, int64_t n) {
  using Near = Neighbors<T, N>;
  T rounded[N];
#pragma unroll
  for (int i = 0; i < N; ++i) rounded[i] = Rounded(from[i], T{});
  if (Near::Whole(row, at, n)) {
    typename Near::Word words[Near::kWords];
    std::memcpy(words, rounded, sizeof(rounded));
#pragma unroll
    for (int w = 0; w < Near::kWords; ++w) reinterpret_cast<typename Near::Word*>(row + at)[w] = words[w];
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (at + i < n) row[at + i] = rounded[i];
  }
}

// Returns the sum over the warp, the same bits in every lane.
template <typename S>
__device__ __forceinline__ S WarpSum(S x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = Add(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// Returns the sum over the block, the same bits in every thread. `memory` has a place for each warp, of at most 32.
template <typename S>
__device__ __forceinline__ S BlockSum(S x, S* memory) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  x = WarpSum(x);
  if (warps == 1) return x;
  __syncthreads();  // the last sum has been read
  if (lane == 0) memory[warp] = x;
  __syncthreads();
  return WarpSum(lane < warps ? memory[lane] : S(0));
}

}  // namespace ingot::kernels::cuda
