// Arguments for the CUDA kernel of AdamW (adamw.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

inline constexpr int kAdamWThreads = 256;
inline constexpr int kAdamWEach = 4;  // numbers per thread

// The terms of AdamW's formulas (trainer/adamw.h), rounded to the type of the state.
template <typename S>
struct AdamWTerms {
  S beta1, rest1;  // and 1 - beta1
  S beta2, rest2;
  S root;  // sqrt(1 - beta2^t)
  S eps;
  S decay;  // 1 - learning rate * weight decay
  S step;   // -learning rate / (1 - beta1^t)
};

template <typename S>
struct AdamWArgs {
  int64_t count;
  S* master;                // [count]
  S *exp_avg, *exp_avg_sq;  // [count]
  const S* gradient;        // [count]; null = the master is rounded, and nothing else changes
  BFloat16* parameter;      // [count], the rounded master; null = not rounded
  // [count / 32, rounded up]. Sets bit i % 32 of entry i / 32 if parameter i changes, which is the master if there is no
  // `parameter`. Null = no marks; only without a `parameter`.
  uint32_t* changes;
  AdamWTerms<S> terms;
  bool weights, moments;  // which of them an update changes
};

}  // namespace ingot::kernels::cuda
