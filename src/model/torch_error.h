// Converts torch's exceptions to absl::Status.
#pragma once

#include <exception>
#include <string>

#include "base/status.h"

namespace ingot::model {

// Returns
//   RESOURCE_EXHAUSTED       if the host or a device has no memory left; the message contains `advice`, such as the keys
//                            that lower the need,
//   base::DeviceFailure      if CUDA cannot be used in this process any more; the message contains the cause and what
//                            to do,
//   INTERNAL                 for any other exception.
// Leaves out the stack trace at the end of a c10::Error, and all but the first line of a CUDA error.
absl::Status FromTorchException(const std::exception& error, const std::string& advice);

// Returns true if the CUDA error `code` (cudaError_t) is permanent for the process. Pure.
bool EndsDevice(int code);

}  // namespace ingot::model
