// Faults of a request that name the field at fault, so that whoever passed the request on can say it in its caller's
// words. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

struct Fault {
  std::string field;  // path of the field in the request, e.g. "sampling.logit_bias"
  std::string what;   // what is wrong with its value; names no field of the request
};

// An error that says both and keeps them apart too; gRPC carries it.
absl::Status FaultError(const Fault& fault);
// nullopt: the error names no field.
std::optional<Fault> FaultOf(const absl::Status& status);

}  // namespace ingot::base
