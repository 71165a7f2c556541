// Computes the parts of a transformer layer other than attention on the CPU: linear, RMSNorm, RoPE, SwiGLU. Uses raw
// pointers to fp32, fp64, or bf16, without torch. bf16 sums and gradients are computed in fp32 and rounded when stored.
//
// Invariant (tested bit for bit): a row of the result depends only on that row of the input, not on the number of rows
// or the threads. So a token gets the same numbers in a decode step with one row and in a training batch with
// thousands. (A BLAS does not guarantee this, because it selects its kernel by shape.)
//
// All matrices are dense and row-major. Blocks until done. Thread safe.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

// y[rows, out] = x[rows, in] w[out, in]^T + bias[out]. bias may be null. Row r of x is at x + r * x_row_stride.
template <typename T>
struct LinearArgs {
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  T* y = nullptr;
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  int64_t x_row_stride = 0;        // 0 = dense
  Accumulator<T>* wide = nullptr;  // bf16: receives the unrounded result instead of y; null = not needed
};
template <typename T>
void Linear(const LinearArgs<T>& args, const ParallelFor& parallel);

// RMSNorm over rows of n: y = s / sqrt(mean(s^2) + eps) * weight. s is x or, with `plus`, x + plus rounded to T, which
// is the residual sum at the start of a block in a layer.
template <typename T>
struct RmsNormArgs {
  const T* x = nullptr;
  const T* plus = nullptr;  // [rows, n]; null = none
  T* sum = nullptr;         // receives x + plus; required if plus is set
  const T* weight = nullptr;
  Accumulator<T> eps = 0;
  int64_t rows = 0;
  int64_t n = 0;
};
// inverse [rows] receives 1 / sqrt(...) for the backward pass; null = not needed.
template <typename T>
void RmsNorm(const RmsNormArgs<T>& args, T* y, Accumulator<T>* inverse, const ParallelFor& parallel);
// Overwrites grad_x, which is the gradient with respect to s, and grad_weight. Here args.x is s. by_sum is the part of
// the gradient with respect to s that bypasses the norm; null = none.
template <typename T>
void RmsNormBackward(const RmsNormArgs<T>& args, const T* grad, const T* by_sum, const Accumulator<T>* inverse,
                     T* grad_x, T* grad_weight, const ParallelFor& parallel);

// Applies RoPE (half-rotation) to x [rows, heads, head_dim], after an RMSNorm over head_dim if `weight` is set. Row r
// of x is at x + r * x_row_stride and uses row positions[r] of the tables cos and sin [positions, head_dim / 2].
template <typename T>
struct RotateArgs {
  const T* x = nullptr;
  const T* weight = nullptr;  // [head_dim]; null = no norm
  Accumulator<T> eps = 0;
  const T* cos = nullptr;
  const T* sin = nullptr;
  const int64_t* positions = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;      // even
  int64_t x_row_stride = 0;  // 0 = dense
};
// y is dense. inverse is [rows, heads]; null = no norm, or not needed.
template <typename T>
void NormRotate(const RotateArgs<T>& args, T* y, Accumulator<T>* inverse, const ParallelFor& parallel);
// Overwrites grad_x (dense) and, if there is a norm, grad_weight.
template <typename T>
void NormRotateBackward(const RotateArgs<T>& args, const T* grad, const Accumulator<T>* inverse, T* grad_x,
                        T* grad_weight, const ParallelFor& parallel);

// y = silu(gate) * up, elementwise.
template <typename T>
void SwiGlu(const T* gate, const T* up, int64_t count, T* y, const ParallelFor& parallel);
template <typename T>
void SwiGluBackward(const T* grad, const T* gate, const T* up, int64_t count, T* grad_gate, T* grad_up,
                    const ParallelFor& parallel);

}  // namespace ingot::kernels
