// Checks of ingot::tree_attention on any device, against gathered paths in fp64 and against itself. They need no test
// framework, because a machine with a GPU may lack one. cuda_attention_test.cc and gpu_check.cc print the results. On
// the CPU the checks test themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace ingot::kernels::testing {

struct CheckResult {
  std::string name;
  double error = 0;      // norm of the difference over norm; 1 = equality to the bit was required and failed
  double tolerance = 0;  // 0 = equality to the bit
  bool ok() const { return error <= tolerance; }
};

// Calls `report` for every check when it is done. `small` leaves out streams of more than 100 rows and all sizes of pages but one, for a
// device whose kernels are interpreted. Throws c10::Error if the operator does.
void CheckTreeAttention(at::Device device, const std::function<void(const CheckResult&)>& report, bool small = false);

}  // namespace ingot::kernels::testing
