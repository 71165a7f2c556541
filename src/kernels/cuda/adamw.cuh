// One update of a tensor by AdamW (trainer/adamw.h). Reads and writes each number once: the update, the rounding to bf16,
// and the marks of the words that the rounding changes (weights/change_mask.h), or of the numbers that an update changes
// if the master is the parameter.
//
// Each operation rounds once, as written here, so the bits do not depend on the compiler or the GPU. A launch that
// changes only the weights and one that then changes only the moments give the bits of a launch that changes both.
//
// Grid: x = kAdamWThreads * kAdamWEach numbers. The lanes of a warp have neighboring numbers, so a vote gives the marks
// of 32 words, which no other warp writes.
#pragma once

#include "kernels/bfloat16.h"
#include "kernels/cuda/adamw_args.h"
#include "kernels/cuda/arithmetic.cuh"

namespace ingot::kernels::cuda {

// As weights::RoundToBfloat16: a NaN becomes 0x7fc0.
__device__ __forceinline__ uint16_t RoundedWord(float x) { return x != x ? uint16_t{0x7fc0} : ToBFloat16(x).bits; }
__device__ __forceinline__ uint16_t RoundedWord(double x) { return RoundedWord(static_cast<float>(x)); }

template <typename S>
struct AdamWNumber {
  S master, exp_avg, exp_avg_sq, gradient;
};

template <typename S>
__device__ __forceinline__ void Update(const AdamWTerms<S>& t, AdamWNumber<S>& x) {
  x.exp_avg = MulAdd(t.rest1, x.gradient, Mul(t.beta1, x.exp_avg));
  x.exp_avg_sq = MulAdd(Mul(t.rest2, x.gradient), x.gradient, Mul(t.beta2, x.exp_avg_sq));
  const S denominator = Add(Div(Root(x.exp_avg_sq), t.root), t.eps);
  x.master = Add(Mul(x.master, t.decay), Div(Mul(t.step, x.exp_avg), denominator));
}

template <typename S>
__global__ void __launch_bounds__(kAdamWThreads) AdamWKernel(const AdamWArgs<S> a) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kAdamWThreads * kAdamWEach) + threadIdx.x;
  AdamWNumber<S> x[kAdamWEach];
  uint16_t before[kAdamWEach];
#pragma unroll
  for (int i = 0; i < kAdamWEach; ++i) {
    const int64_t at = first + i * kAdamWThreads;
    if (at >= a.count) break;
    x[i].master = a.master[at];
    if (a.parameter != nullptr) before[i] = a.parameter[at].bits;
    if (a.gradient != nullptr) x[i] = {x[i].master, a.exp_avg[at], a.exp_avg_sq[at], a.gradient[at]};
  }
#pragma unroll
  for (int i = 0; i < kAdamWEach; ++i) {
    const int64_t at = first + i * kAdamWThreads;
    const bool inside = at < a.count;
    bool changed = false;
    if (inside && a.gradient != nullptr) {
      const S old = x[i].master;
      Update(a.terms, x[i]);
      changed = a.weights && !SameBits(old, x[i].master);
      if (a.weights) a.master[at] = x[i].master;
      if (a.moments) {
        a.exp_avg[at] = x[i].exp_avg;
        a.exp_avg_sq[at] = x[i].exp_avg_sq;
      }
    }
    if (a.changes == nullptr) continue;
    if (a.parameter != nullptr) {
      const uint16_t word = RoundedWord(x[i].master);
      changed = inside && word != before[i];
      if (changed) a.parameter[at].bits = word;
    }
    const uint32_t changes = __ballot_sync(0xffffffffu, changed);
    if (changes != 0 && threadIdx.x % 32 == 0) a.changes[at / 32] |= changes;
  }
}

}  // namespace ingot::kernels::cuda
