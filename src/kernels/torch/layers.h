// The parts of a transformer layer between its products, as torch functions with autograd.
//
// fp32, fp64 and bf16 on the CPU run kernels/layers.h, where a row of the result depends only on its row of the input.
// Gradients of bf16 are computed in fp32 and rounded. Other dtypes and devices run the same formulas through ATen
// operators. Without a need for gradients they cost one call and allocate only the result. Throw c10::Error on tensors
// that do not fit. The matrix products are in linear.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace ingot::kernels {

// Adds the gradient of an embedding's result, grad [rows, n] for the tokens ids (int64 [rows]), to the .grad of its
// weight [vocab, n]. On the CPU, bf16 gradients of one token and its earlier .grad are summed in fp32: a sum of
// thousands in bf16 stops growing after a few hundred. Only the rows of an existing .grad whose tokens occur are read
// and written. On other devices ATen sums.
void AddEmbeddingGradient(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& weight);

// RMSNorm over the last dimension; x [rows, n], weight [n].
at::Tensor RmsNormOp(const at::Tensor& x, const at::Tensor& weight, double eps);

// The beginning of a layer's part: the residual sum and its RMSNorm.
struct Residual {
  at::Tensor sum;     // x + plus, or x if plus is undefined
  at::Tensor normed;  // RmsNormOp(sum, ...)
};
// x, plus [rows, n], weight [n]. Two gradients reach the sum, past the norm and through it. They are added before
// rounding.
Residual ResidualNormOp(const at::Tensor& x, const at::Tensor& plus, const at::Tensor& weight, double eps);

// x [rows, heads, head_dim] -> RMSNorm over head_dim if `weight` [head_dim] is defined, then RoPE by rows `positions`
// (int64 [rows]) of the tables cos and sin [max_position, head_dim / 2].
at::Tensor NormRotateOp(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& positions);

// silu(gate) * up
at::Tensor SwiGluOp(const at::Tensor& gate, const at::Tensor& up);

}  // namespace ingot::kernels
