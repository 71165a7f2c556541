// Bounds of numbers in options: the checks that Validate functions share. INVALID_ARGUMENT names the option, its value and
// the bound. NaN is within no bound.
#pragma once

#include "base/status.h"

namespace ingot::base {

inline absl::Status Positive(const char* name, double value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ": it must be greater than 0"));
}

inline absl::Status NotNegative(const char* name, double value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ": it must be 0 or greater"));
}

}  // namespace ingot::base
