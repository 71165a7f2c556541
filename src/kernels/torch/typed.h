// Converts between tensors and the raw kernels' types.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "kernels/bfloat16.h"

namespace ingot::kernels {

// Calls f with a zero of the kernel type for the tensor's elements. Throws c10::Error if the kernels do not support the
// type.
template <typename F>
auto ByType(const at::Tensor& t, F&& f) {
  if (t.scalar_type() == at::kBFloat16) return f(BFloat16{});
  if (t.scalar_type() == at::kDouble) return f(double{});
  TORCH_CHECK(t.scalar_type() == at::kFloat, "the kernels on ", t.device(),
              " support float32, float64, and bfloat16, got ", t.scalar_type());
  return f(float{});
}

// Returns the type for sums over the tensor's elements.
inline at::ScalarType AccumulatorType(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Returns the tensor's memory, or null if it is undefined.
template <typename T>
const T* Read(const at::Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
}
template <typename T>
T* Write(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
}

}  // namespace ingot::kernels
