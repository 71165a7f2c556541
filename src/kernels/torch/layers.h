// The pieces of a transformer layer as torch functions with autograd.
//
// fp32 and fp64 on the CPU run kernels/layers.h: there a row of the result depends on its row of the input alone. Other
// dtypes and devices run the same formulas through ATen operators. With nothing to differentiate they cost one call
// and allocate nothing but the result. Throw c10::Error on tensors that do not fit.
#pragma once

#include <ATen/core/Tensor.h>

namespace ingot::kernels {

// x [rows, in], weight [out, in], bias [out] or undefined -> [rows, out].
at::Tensor LinearOp(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Over the last dimension; x [rows, n], weight [n].
at::Tensor RmsNormOp(const at::Tensor& x, const at::Tensor& weight, double eps);

// x [rows, heads, head_dim] -> RMSNorm over head_dim if `weight` [head_dim] is defined, then RoPE by rows `positions`
// (int64 [rows]) of the tables cos and sin [max_position, head_dim / 2].
at::Tensor NormRotateOp(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& positions);

// silu(gate) * up
at::Tensor SwiGluOp(const at::Tensor& gate, const at::Tensor& up);

}  // namespace ingot::kernels
