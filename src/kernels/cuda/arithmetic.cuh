// Operations that round once, as written: without these, the compiler may contract a product and a sum. bf16 is
// computed in fp32.
#pragma once

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

__device__ __forceinline__ float Mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float Add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float Div(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ float Root(float a) { return __fsqrt_rn(a); }
__device__ __forceinline__ float MulAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ bool SameBits(float a, float b) { return __float_as_uint(a) == __float_as_uint(b); }
__device__ __forceinline__ double Mul(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double Add(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ double Div(double a, double b) { return __ddiv_rn(a, b); }
__device__ __forceinline__ double Root(double a) { return __dsqrt_rn(a); }
__device__ __forceinline__ double MulAdd(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ bool SameBits(double a, double b) {
  return __double_as_longlong(a) == __double_as_longlong(b);
}

// A number in the type of its sums, and back.
__device__ __forceinline__ float WideOf(float x) { return x; }
__device__ __forceinline__ double WideOf(double x) { return x; }
__device__ __forceinline__ float WideOf(BFloat16 x) { return ToFloat(x); }
__device__ __forceinline__ void Round(float sum, float& to) { to = sum; }
__device__ __forceinline__ void Round(double sum, double& to) { to = sum; }
__device__ __forceinline__ void Round(float sum, BFloat16& to) { to = ToBFloat16(sum); }

}  // namespace ingot::kernels::cuda
