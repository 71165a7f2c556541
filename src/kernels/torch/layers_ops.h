// The CUDA kernels of layers.h as torch operators, registered with the dispatcher under `ingot`. layers.cc has their
// schemas, and libingot_cuda.so implements them; on the CPU, layers.cc calls kernels/layers.h. They write into the
// given tensors, which are dense, as all others, and throw c10::Error if tensors do not match.
//
//   rms_norm, rms_norm_backward          RMSNorm of x [rows, n], or of x + plus, which it writes to `sum`
//   norm_rotate, norm_rotate_backward    RoPE of x [rows, heads, head_dim], after an RMSNorm if there is a weight
//   swiglu, swiglu_backward              silu(gate) * up
//   gather_rows                          rows[i] = table[ids[i]]
//
// `inverse` has the norm's factors, [rows] or [rows, heads], in the type of the sums.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace ingot::kernels {

using MaybeTensor = std::optional<at::Tensor>;

using RmsNormSignature = void(const at::Tensor& x, const MaybeTensor& plus, const at::Tensor& weight, double eps,
                              const MaybeTensor& sum, const at::Tensor& y, const MaybeTensor& inverse);
using RmsNormBackwardSignature = void(const at::Tensor& grad, const MaybeTensor& by_sum, const at::Tensor& x,
                                      const at::Tensor& weight, const at::Tensor& inverse, const at::Tensor& grad_x,
                                      const at::Tensor& grad_weight);
using NormRotateSignature = void(const at::Tensor& x, const MaybeTensor& weight, double eps, const at::Tensor& cos,
                                 const at::Tensor& sin, const at::Tensor& positions, const at::Tensor& y,
                                 const MaybeTensor& inverse);
using NormRotateBackwardSignature = void(const at::Tensor& grad, const MaybeTensor& x, const MaybeTensor& weight,
                                         const MaybeTensor& inverse, const at::Tensor& cos, const at::Tensor& sin,
                                         const at::Tensor& positions, const at::Tensor& grad_x,
                                         const MaybeTensor& grad_weight);
using SwiGluSignature = void(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& y);
using SwiGluBackwardSignature = void(const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up,
                                     const at::Tensor& grad_gate, const at::Tensor& grad_up);

using GatherRowsSignature = void(const at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows);

}  // namespace ingot::kernels
