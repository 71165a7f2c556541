// Provides linear layers as torch functions with autograd, and the matrix products for their gradients.
//
// On the CPU in fp32, fp64, and bf16, the layers use kernels/layers.h, where each row of the result depends only on
// that row of the input. ATen computes the products for gradients, except for bf16 on machines with tile registers
// (product.h). With exact numerics, CUDA has kernels with the same property (exact.h), and ATen computes the products for
// gradients. Other dtypes and devices use ATen operators. The functions throw c10::Error if tensors do not match.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ingot::kernels {

// x [rows, in], weight [out, in], bias [out] or undefined -> [rows, out].
at::Tensor LinearOp(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Several layers with the same input: weights[i] [out_i, in] and, if `biases` is not empty, biases[i] [out_i] or
// undefined -> [rows, out_i] each. Each result equals that of LinearOp. The gradient with respect to x is one product
// over all results' gradients, rounded once.
std::vector<at::Tensor> LinearsOp(const at::Tensor& x, at::TensorList weights, at::TensorList biases = {});

// Same as LinearOp, but the result has the type of the sums: fp32 for bf16 (on other devices, the converted ATen
// result, unless numerics are exact). Used for logits, where rounding to bf16 would be the largest error in a log-prob.
at::Tensor WideLinearOp(const at::Tensor& x, const at::Tensor& weight);

// Returns the product a b of matrices [m, k] and [k, n] without autograd history, for gradients. Either may be
// transposed. If `out` is defined, the result is written to it; it must be dense and have the same type.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b, at::Tensor out = {});
// Returns a[0] b[0] + a[1] b[1] + ..., where all a have the same shape and type, and so do all b. Rounded only once if
// there are tile registers.
at::Tensor SumOfProducts(at::TensorList a, at::TensorList b, at::Tensor out = {});
// sum += a b in the type of the sums. If `sum` is undefined, creates it.
void AddProduct(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace ingot::kernels
