// Conversions between tensors and the raw kernels' types.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "kernels/bfloat16.h"

namespace ingot::kernels {

// Calls f with a zero of the kernels' type for the tensor's numbers. Throws c10::Error for a type that the kernels do
// not compute in.
template <typename F>
auto ByType(const at::Tensor& t, F&& f) {
  if (t.scalar_type() == at::kBFloat16) return f(BFloat16{});
  if (t.scalar_type() == at::kDouble) return f(double{});
  TORCH_CHECK(t.scalar_type() == at::kFloat, "the kernels on ", t.device(),
              " compute in float32, float64 or bfloat16, got ", t.scalar_type());
  return f(float{});
}

// The type of sums over the tensor's numbers.
inline at::ScalarType AccumulatorType(const at::Tensor& t) {
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// The tensor's memory; null where it is undefined.
template <typename T>
const T* Read(const at::Tensor& t) {
  return t.defined() ? static_cast<const T*>(t.const_data_ptr()) : nullptr;
}
template <typename T>
T* Write(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) : nullptr;
}

}  // namespace ingot::kernels
