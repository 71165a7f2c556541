#pragma once

#include <ATen/ATen.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

namespace ingot::rollout {

// Returns a tensor [values.size()] over the vector's memory. REQUIRES: the vector outlives it and is not resized, and
// nobody writes to the tensor.
template <typename T>
at::Tensor View(const std::vector<T>& values) {
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                       c10::CppTypeToScalarType<T>::value);
}

}  // namespace ingot::rollout
