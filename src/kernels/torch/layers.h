// The pieces of a transformer layer between its products as torch functions with autograd.
//
// fp32, fp64 and bf16 on the CPU run kernels/layers.h: there a row of the result depends on its row of the input alone.
// Gradients of bf16 are computed in fp32 and rounded. Other dtypes and devices run the same formulas through ATen
// operators. With nothing to differentiate they cost one call and allocate nothing but the result. Throw c10::Error on
// tensors that do not fit. The matrix products are in linear.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace ingot::kernels {

// Adds the gradient of an embedding's result, grad [rows, n] of the tokens ids (int64 [rows]), to the .grad of its
// weight [vocab, n]. On the CPU a token's is summed over its occurrences and what is there in fp32 of bf16, for
// thousands added up in bf16 stop growing after a few hundred; of a .grad that is there, the rows that occur alone are
// read and written. Elsewhere ATen sums.
void AddEmbeddingGradient(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& weight);

// Over the last dimension; x [rows, n], weight [n].
at::Tensor RmsNormOp(const at::Tensor& x, const at::Tensor& weight, double eps);

// Where a layer's part begins: the residual sum and its RMSNorm.
struct Residual {
  at::Tensor sum;     // x + plus, or x if that is undefined
  at::Tensor normed;  // RmsNormOp(sum, ...)
};
// x, plus [rows, n], weight [n]. The gradients that reach the sum past the norm and through it are added before they
// are rounded.
Residual ResidualNormOp(const at::Tensor& x, const at::Tensor& plus, const at::Tensor& weight, double eps);

// x [rows, heads, head_dim] -> RMSNorm over head_dim if `weight` [head_dim] is defined, then RoPE by rows `positions`
// (int64 [rows]) of the tables cos and sin [max_position, head_dim / 2].
at::Tensor NormRotateOp(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& positions);

// silu(gate) * up
at::Tensor SwiGluOp(const at::Tensor& gate, const at::Tensor& up);

}  // namespace ingot::kernels
