// Linear layers for exact numerics on devices: their rows do not depend on the other rows. torch's own ones choose a
// kernel, and so the order of a sum, by the number of rows. On the CPU, LinearOp (linear.h) is always computed this way,
// as are the norms (layers.h) and the policy (softmax.h) on the CPU and on CUDA.
//
// Registered with the dispatcher under `ingot`; only libingot_cuda.so has a kernel:
//
//   exact_linear(x, weight, bias, wide) -> y     kernels/cuda/product_mma.cuh, product_plain.cuh
//   exact_linears(x, weights, biases) -> ys      two or three layers of one input, in one launch
//
// The functions throw c10::Error if tensors do not match, or if the device has no kernel.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "kernels/numerics.h"

namespace ingot::kernels {

// Selects how this process's linear layers and attention are computed on devices. Call it before anything else is
// computed, in the trainer and in the engine. Thread safe. The default is kFast.
void SetDeviceNumerics(Numerics numerics);
Numerics DeviceNumerics();

// Returns whether the tensor is on a device, and the device's numerics are exact.
bool ExactOn(const at::Tensor& t);

// x [rows, in], weight [out, in], bias [out] or undefined -> [rows, out], of x's type or, if `wide`, the type of the sums.
// Without autograd history.
at::Tensor ExactLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, bool wide);

// As ExactLinear(x, weights[i], biases[i], false) for two or three layers, with the same bits. `biases` is empty, or has
// undefined tensors for layers without one.
std::vector<at::Tensor> ExactLinears(const at::Tensor& x, at::TensorList weights, at::TensorList biases);

using ExactLinearSignature = at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias, bool wide);
using ExactLinearsSignature = std::vector<at::Tensor>(const at::Tensor& x, at::TensorList weights,
                                                      const c10::List<std::optional<at::Tensor>>& biases);

}  // namespace ingot::kernels
