// Checks of a device's layer functions (kernels/torch/layers.h) and policy (kernels/torch/softmax.h) against the CPU's:
// results, gradients, and a row's bits alone and among others.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "kernels/attention/attention_checks.h"

namespace ingot::kernels::testing {

// `small` leaves out the larger shapes.
void CheckLayers(at::Device device, const std::function<void(const CheckResult&)>& report, bool small);
void CheckPolicy(at::Device device, const std::function<void(const CheckResult&)>& report, bool small);

}  // namespace ingot::kernels::testing
