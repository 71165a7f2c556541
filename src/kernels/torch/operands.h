// Checks and converts tensors for the layers' torch functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <optional>

namespace ingot::kernels {

// Returns whether the raw kernels support the tensor.
inline bool Native(const at::Tensor& t) {
  const at::ScalarType type = t.scalar_type();
  return t.device().is_cpu() && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
}

template <typename... Tensors>
bool NeedsGrad(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

// Converts an undefined tensor to nullopt, because autograd arguments cannot be undefined.
inline std::optional<at::Tensor> Optional(const at::Tensor& t) {
  return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
}

// Throws c10::Error unless b is undefined or has a's type and device.
inline void CheckSame(const char* what, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(!b.defined() || (a.scalar_type() == b.scalar_type() && a.device() == b.device()), what, ": ",
              a.scalar_type(), " on ", a.device(), " meets ", b.scalar_type(), " on ", b.device());
}

// Throws c10::Error unless t is dense, and has this type and these sizes, and the device of `first`.
inline void CheckDense(const char* op, const char* what, const at::Tensor& t, const at::Tensor& first,
                       at::IntArrayRef sizes, at::ScalarType type) {
  TORCH_CHECK(t.scalar_type() == type && t.sizes() == sizes && t.is_contiguous() && t.device() == first.device(), op,
              ": ", what, " must be dense, ", type, " ", sizes, " on ", first.device(), ", got ", t.scalar_type(), " ",
              t.sizes(), " on ", t.device());
}

}  // namespace ingot::kernels
