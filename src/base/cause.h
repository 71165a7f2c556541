// The name of the part that an error comes from, such as one term of a sum, as a payload of the status. The payload survives
// Annotate.
#pragma once

#include <string>

#include "absl/strings/cord.h"
#include "base/status.h"

namespace ingot::base {

inline constexpr char kCause[] = "ingot.cause";

// REQUIRES: `status` is an error.
inline absl::Status WithCause(absl::Status status, const std::string& cause) {
  status.SetPayload(kCause, absl::Cord(cause));
  return status;
}

// Empty = the error names none.
inline std::string CauseOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kCause);
  return payload.has_value() ? std::string(*payload) : "";
}

}  // namespace ingot::base
