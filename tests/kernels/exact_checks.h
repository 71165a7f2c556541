// Checks of the operators for exact numerics on a device (kernels/torch/exact.h) and of its attention: equal bits of a row
// alone and in every batch. They need no test framework, as those of attention/attention_checks.h.
#pragma once

#include <functional>

#include "kernels/attention/attention_checks.h"

namespace ingot::kernels::testing {

// Calls `report` for every check when it is done. `small` leaves out large shapes, for a device whose kernels are
// interpreted. Throws c10::Error if an operator does.
void CheckExact(at::Device device, const std::function<void(const CheckResult&)>& report, bool small = false);

}  // namespace ingot::kernels::testing
