// Memory of the device, and errors against fp64, for attention_errors.cu and attention_backward_errors.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bfloat16.h"

namespace ingot::standin {

template <typename T>
T* OnDevice(const std::vector<T>& values) {
  T* device = nullptr;
  cudaMalloc(&device, values.size() * sizeof(T));
  cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}

inline std::vector<double> FromDevice(const kernels::BFloat16* device, size_t count) {
  std::vector<kernels::BFloat16> values(count);
  cudaMemcpy(values.data(), device, count * sizeof(kernels::BFloat16), cudaMemcpyDeviceToHost);
  std::vector<double> wide;
  for (const kernels::BFloat16 x : values) wide.push_back(kernels::ToFloat(x));
  return wide;
}

struct Error {
  double mean_square, largest;
};

inline Error Compare(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return {INFINITY, INFINITY};
  double sum = 0, norm = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    sum += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
    largest = std::max(largest, std::abs(got[i] - want[i]));
  }
  return {std::sqrt(sum / norm), largest};
}

}  // namespace ingot::standin
