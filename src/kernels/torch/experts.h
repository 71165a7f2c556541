// The parts of layers with experts, and their gates, as torch functions with autograd over kernels/routing.h and
// kernels/gates.h. CPU only, fp32, fp64 and bf16; throw c10::Error on tensors that do not fit. A row of each result
// depends only on its row of the input, to the bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gates.h"
#include "kernels/routing.h"

namespace ingot::kernels {

struct RoutedTokens {
  at::Tensor weights;  // [rows, per_token], of the logits' type
  at::Tensor scores;   // [rows, experts], the same
  at::Tensor routes;   // int64 [rows, per_token], without history
};
// logits [rows, experts] in fp32 or fp64; bias [experts] or undefined; `replay` int64 [rows, per_token]: routes to
// take, undefined = choose them. `shape`: without rows and experts, which come from the logits.
RoutedTokens RouteOp(const at::Tensor& logits, const at::Tensor& bias, const at::Tensor& replay, RoutingShape shape);

// gate and up of one shape.
at::Tensor GatedOp(Gate kind, const at::Tensor& gate, const at::Tensor& up);

}  // namespace ingot::kernels
