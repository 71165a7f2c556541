// The policy of rows of logits: the log-softmax at a temperature, its entropy, and the gradient (kernels/softmax.h).
//
// A row is cut into parts of kPolicyPart numbers, one per block, and a part's numbers stay in registers. A part's sums
// are relative to its largest number. PolicyRowKernel then adds a row's parts in a fixed tree. Each kernel computes log
// p by the same operations, which round once, so a token's log-prob has the same bits in all of them, and a row's bits
// depend only on the row.
//
// Grid: x = row, y = part; of PolicyRowKernel: x = row, with one warp.
#pragma once

#include <cassert>
#include <cfloat>

#include "kernels/cuda/policy_args.h"
#include "kernels/cuda/row_values.cuh"

namespace ingot::kernels::cuda {

__device__ __forceinline__ float Exponential(float x) { return expf(x); }
__device__ __forceinline__ double Exponential(double x) { return exp(x); }
__device__ __forceinline__ float Logarithm(float x) { return logf(x); }
__device__ __forceinline__ double Logarithm(double x) { return log(x); }
// The larger one; a NaN loses.
__device__ __forceinline__ float Larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double Larger(double a, double b) { return fmax(a, b); }
// Below every finite logit. -infinity would be a NaN after subtracting it from itself.
template <typename T>
__device__ __forceinline__ T Lowest() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return -FLT_MAX;
  } else {
    return -DBL_MAX;
  }
}

template <typename T>
__device__ __forceinline__ T WarpTop(T x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = Larger(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// The place in the row of the thread's vector i.
template <typename T>
__device__ __forceinline__ int64_t PolicyPlace(int i) {
  return blockIdx.y * kPolicyPart<T> + (static_cast<int64_t>(i) * kPolicyThreads + threadIdx.x) * kVector<T>;
}

template <typename T>
__device__ __forceinline__ T Distance(T z, T top, T temperature) {
  return Div(Add(z, -top), temperature);
}

template <typename T>
__global__ void __launch_bounds__(kPolicyThreads) PolicyPartKernel(const PolicySumArgs<T> a) {
  constexpr int kEach = kVector<T>, kWarps = kPolicyThreads / 32;
  __shared__ T tops[kWarps], sums[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = blockIdx.x, vocab = a.policy.vocab;
  T z[kPolicyHeld][kEach], top = Lowest<T>();
#pragma unroll
  for (int i = 0; i < kPolicyHeld; ++i) {
    const int64_t at = PolicyPlace<T>(i);
    Load(z[i], a.policy.logits + row * vocab, at, vocab);
#pragma unroll
    for (int e = 0; e < kEach; ++e) top = at + e < vocab ? Larger(top, z[i][e]) : top;
  }
  const T of_warp = WarpTop(top);
  if (lane == 0) tops[warp] = of_warp;
  __syncthreads();
  top = WarpTop(tops[lane % kWarps]);
  const T temperature = a.policy.temperature[row];
  T sum = 0, weighted = 0;
#pragma unroll
  for (int i = 0; i < kPolicyHeld; ++i) {
    const int64_t at = PolicyPlace<T>(i);
    if (at >= vocab) break;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      if (at + e >= vocab) break;
      const T d = Distance(z[i][e], top, temperature), power = Exponential(d);
      sum = Add(sum, power);
      weighted = MulAdd(d, power, weighted);
    }
  }
  sum = BlockSum(sum, sums);
  weighted = BlockSum(weighted, sums);
  if (threadIdx.x == 0) a.parts[row * a.policy.parts() + blockIdx.y] = {top, sum, weighted};
}

template <typename T>
__global__ void __launch_bounds__(32) PolicyRowKernel(const PolicySumArgs<T> a) {
  const int64_t row = blockIdx.x, count = a.policy.parts();
  const PolicySums<T>* const parts = a.parts + row * count;
  const T temperature = a.policy.temperature[row];
  T top = Lowest<T>();
  for (int64_t i = threadIdx.x; i < count; i += 32) top = Larger(top, parts[i].top);
  top = WarpTop(top);
  T sum = 0, weighted = 0;
  for (int64_t i = threadIdx.x; i < count; i += 32) {
    const PolicySums<T> part = parts[i];
    const T shift = Distance(part.top, top, temperature), power = Exponential(shift);
    sum = MulAdd(power, part.sum, sum);
    // Nothing but -infinity: `weighted` is a NaN, which the shift must not hide, and 0 * -infinity would be one for
    // other parts.
    const T moved = part.sum == 0 ? part.weighted : Mul(power, MulAdd(shift, part.sum, part.weighted));
    weighted = Add(weighted, moved);
  }
  sum = WarpSum(sum);
  weighted = WarpSum(weighted);
  if (threadIdx.x != 0) return;
  const T log_sum = Logarithm(sum);
  a.policy.top[row] = top;
  a.policy.log_sum[row] = log_sum;
  a.entropy[row] = Add(log_sum, -Div(weighted, sum));
}

// The values of one row.
template <typename T>
struct PolicyOfRow {
  T temperature, top, log_sum;

  __device__ PolicyOfRow(const PolicyValues<T>& p, int64_t row)
      : temperature(p.temperature[row]), top(p.top[row]), log_sum(p.log_sum[row]) {}
  __device__ __forceinline__ T LogProb(T z) const { return Add(Distance(z, top, temperature), -log_sum); }
};

template <typename T>
__global__ void __launch_bounds__(kPolicyThreads) LogPolicyKernel(const LogPolicyArgs<T> a) {
  const int64_t vocab = a.policy.vocab, row = a.rows == nullptr ? blockIdx.x : a.rows[blockIdx.x];
  assert(row >= 0 && row < a.policy.rows);
  const PolicyOfRow<T> of(a.policy, row);
#pragma unroll
  for (int i = 0; i < kPolicyHeld; ++i) {
    const int64_t at = PolicyPlace<T>(i);
    if (at >= vocab) break;
    T z[kVector<T>];
    Load(z, a.policy.logits + row * vocab, at, vocab);
#pragma unroll
    for (int e = 0; e < kVector<T>; ++e) z[e] = of.LogProb(z[e]);
    Store(a.out + blockIdx.x * vocab, z, at, vocab);
  }
}

template <typename T>
__global__ void __launch_bounds__(kPolicyThreads) TokenPolicyKernel(const TokenPolicyArgs<T> a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kPolicyThreads + threadIdx.x;
  if (i >= a.count) return;
  const int64_t row = a.row[i], token = a.token[i];
  assert(row >= 0 && row < a.policy.rows && token >= 0 && token < a.policy.vocab);
  a.out[i] = PolicyOfRow<T>(a.policy, row).LogProb(a.policy.logits[row * a.policy.vocab + token]);
}

template <typename T, typename Out>
__global__ void __launch_bounds__(kPolicyThreads) PolicyGradientKernel(const PolicyGradientArgs<T, Out> a) {
  constexpr int kEach = kVector<T>;
  const int64_t row = blockIdx.x, vocab = a.policy.vocab, first = a.first[row], last = a.first[row + 1];
  const PolicyOfRow<T> of(a.policy, row);
  const T of_p = a.of_p[row], of_plogp = a.of_plogp[row];
#pragma unroll 1
  for (int i = 0; i < kPolicyHeld; ++i) {
    const int64_t at = PolicyPlace<T>(i);
    if (at >= vocab) break;
    T z[kEach], gradient[kEach];
    Load(z, a.policy.logits + row * vocab, at, vocab);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const T log_prob = of.LogProb(z[e]);
      gradient[e] = Mul(Exponential(log_prob), MulAdd(of_plogp, log_prob, of_p));
    }
    for (int64_t k = first; k < last; ++k) {
      const int64_t place = a.token[k] - at;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if (place == e) gradient[e] = Add(gradient[e], a.addend[k]);
      }
    }
    if (a.inverse_cap != 0) {
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const T t = Mul(z[e], a.inverse_cap);
        gradient[e] = Mul(gradient[e], Add(T(1), -Mul(t, t)));
      }
    }
    Store(a.out + row * vocab, gradient, at, vocab);
  }
}

}  // namespace ingot::kernels::cuda
