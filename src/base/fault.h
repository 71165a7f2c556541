// Errors that name the invalid field of a request. A role that forwards a request can then name the field in its
// caller's words. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

struct Fault {
  std::string field;  // path of the field in the request, e.g. "sampling.logit_bias"
  std::string what;   // the fault of its value; names no field of the request
};

// INVALID_ARGUMENT with both parts in its message and in a payload, which gRPC carries.
absl::Status FaultError(const Fault& fault);
// nullopt: the error names no field.
std::optional<Fault> FaultOf(const absl::Status& status);

}  // namespace ingot::base
