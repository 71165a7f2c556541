// ingot::tree_attention on any device against gathered paths in fp64 and against itself, without a test framework: on a
// machine with a card there is none. cuda_attention_test.cc and gpu_check.cc print what comes out. Run on the CPU, the
// same checks test themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace ingot::kernels::testing {

struct CheckResult {
  std::string name;
  double error = 0;      // norm of the difference over norm; 1 where equality to the bit was asked for and is not there
  double tolerance = 0;  // 0: equality to the bit
  bool ok() const { return error <= tolerance; }
};

// Calls `report` for every check as soon as it is done. Throws c10::Error if the operator does.
void CheckTreeAttention(at::Device device, const std::function<void(const CheckResult&)>& report);

}  // namespace ingot::kernels::testing
