// Provides expert routing and gates as torch functions with autograd, based on kernels/routing.h and kernels/gates.h.
// CPU only, in fp32, fp64, and bf16. They throw c10::Error if tensors do not match. Each row of a result depends only
// on that row of the input, bit for bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gates.h"
#include "kernels/routing.h"

namespace ingot::kernels {

struct RoutedTokens {
  at::Tensor weights;  // [rows, per_token], with the logits' type
  at::Tensor scores;   // [rows, experts], with the logits' type
  at::Tensor routes;   // int64 [rows, per_token], without autograd history
};
// logits are [rows, experts] in fp32 or fp64. bias is [experts] or undefined. `replay` is int64 [rows, per_token] with
// the routes to use; undefined = choose them. The rows and experts in `shape` are ignored; the logits' are used.
RoutedTokens RouteOp(const at::Tensor& logits, const at::Tensor& bias, const at::Tensor& replay, RoutingShape shape);

// REQUIRES: gate and up have the same shape.
at::Tensor GatedOp(Gate kind, const at::Tensor& gate, const at::Tensor& up);

}  // namespace ingot::kernels
