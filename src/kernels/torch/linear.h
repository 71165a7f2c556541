// Linear layers as torch functions with autograd, and the products of their gradients.
//
// On the CPU in fp32, fp64 and bf16 the layers run kernels/layers.h, where a row of the result depends only on its row
// of the input. ATen computes the products of gradients, except bf16 on machines with tile registers (product.h).
// Other dtypes and devices run through ATen operators. Throw c10::Error on tensors that do not fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ingot::kernels {

// x [rows, in], weight [out, in], bias [out] or undefined -> [rows, out].
at::Tensor LinearOp(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Layers of one input: weights[i] [out_i, in] and, if `biases` is not empty, biases[i] [out_i] or undefined -> [rows,
// out_i] each. Each result equals LinearOp's. The gradient by x is one product over all gradients of results, rounded
// once.
std::vector<at::Tensor> LinearsOp(const at::Tensor& x, at::TensorList weights, at::TensorList biases = {});

// LinearOp in the type of the sums: fp32 from bf16 (on other devices ATen's result, widened). For logits: rounding to
// bf16 would be the largest error of a log-prob.
at::Tensor WideLinearOp(const at::Tensor& x, const at::Tensor& weight);

// The product a b of matrices [m, k] and [k, n] without history, for gradients. Each may be a transposed one. Written
// into `out`, dense and of their type, if it is defined.
at::Tensor Product(const at::Tensor& a, const at::Tensor& b, at::Tensor out = {});
// a[0] b[0] + a[1] b[1] + ..., of one shape and type each. Rounded once where there are tile registers.
at::Tensor SumOfProducts(at::TensorList a, at::TensorList b, at::Tensor out = {});
// sum += a b, in the type of the sums. An undefined sum is created.
void AddProduct(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace ingot::kernels
