// Attaches the name of the component that caused an error, such as one reward term, as a status payload. The payload
// survives Annotate.
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

// Returns "" if the error does not name a cause.
inline std::string CauseOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kCause);
  return payload.has_value() ? std::string(*payload) : "";
}

}  // namespace ingot::base
