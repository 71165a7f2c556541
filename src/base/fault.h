// Creates and reads errors that name an invalid request field. A role that forwards a request can translate the field
// name for its caller. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::base {

struct Fault {
  std::string field;  // path of the field in the request, e.g. "sampling.logit_bias"
  std::string what;   // what is wrong with its value, without the field's name
};

// Returns INVALID_ARGUMENT with the field and what is wrong, both in the message and in a payload that is sent over
// gRPC.
absl::Status FaultError(const Fault& fault);
// Returns nullopt if the error does not name a field.
std::optional<Fault> FaultOf(const absl::Status& status);

}  // namespace ingot::base
