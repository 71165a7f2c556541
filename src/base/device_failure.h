// Marks the errors after which a process cannot use its GPU any more, such as a kernel that accessed memory that is not
// its own, or a memory error that the GPU could not correct. CUDA returns such an error from every later call, so only
// a new process can continue. The code is INTERNAL, so that nobody retries.
#pragma once

#include "absl/strings/cord.h"
#include "base/status.h"

namespace ingot::base {

inline constexpr char kDeviceFailurePayload[] = "ingot/device-failure";

inline absl::Status DeviceFailure(const std::string& message) {
  absl::Status status = absl::InternalError(message);
  status.SetPayload(kDeviceFailurePayload, absl::Cord("1"));
  return status;
}

inline bool IsDeviceFailure(const absl::Status& status) { return status.GetPayload(kDeviceFailurePayload).has_value(); }

}  // namespace ingot::base
