// Provides the parts of a transformer layer between the matrix products as torch functions with autograd.
//
// fp32, fp64, and bf16 use kernels/layers.h on the CPU and, if libingot_cuda.so is loaded, kernels/cuda/layers_launch.h
// on CUDA. In both, each row of the result depends only on that row of the input. bf16 gradients are computed in fp32
// and rounded. Other dtypes and devices use the same formulas with ATen operators. If no gradient is needed, they cost
// one call and only allocate the result. They throw c10::Error if tensors do not match. The matrix products are in
// linear.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace ingot::kernels {

// Adds the gradient of an embedding lookup, grad [rows, n] for tokens ids (int64 [rows]), to the .grad of the embedding
// weight [vocab, n], in the order of the rows (add_rows.h). A token's bf16 gradients and its previous .grad are summed
// in fp32, because a bf16 sum of thousands of terms stops growing after a few hundred. If .grad exists, reads and
// writes only the rows of the given tokens. The sums are the same bits on every device.
void AddEmbeddingGradient(const at::Tensor& ids, const at::Tensor& grad, const at::Tensor& weight);

// Returns the rows `ids` (int64 [rows]) of the embedding weight [vocab, n], without autograd history.
at::Tensor EmbeddingRows(const at::Tensor& weight, const at::Tensor& ids);

// RMSNorm over the last dimension. x is [rows, n] and weight [n].
at::Tensor RmsNormOp(const at::Tensor& x, const at::Tensor& weight, double eps);

// The start of a block in a layer: the residual sum and its RMSNorm.
struct Residual {
  at::Tensor sum;     // x + plus, or x if plus is undefined
  at::Tensor normed;  // RmsNormOp(sum, ...)
};
// x and plus are [rows, n], and weight is [n]. The sum receives two gradients, one through the norm and one that
// bypasses it, which are added before rounding.
Residual ResidualNormOp(const at::Tensor& x, const at::Tensor& plus, const at::Tensor& weight, double eps);

// Applies RMSNorm over head_dim to x [rows, heads, head_dim] if `weight` [head_dim] is defined, and then RoPE with rows
// `positions` (int64 [rows]) of the tables cos and sin [max_position, head_dim / 2].
at::Tensor NormRotateOp(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& positions);

// silu(gate) * up
at::Tensor SwiGluOp(const at::Tensor& gate, const at::Tensor& up);

}  // namespace ingot::kernels
