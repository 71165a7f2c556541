// Converts torch's exceptions in the engine to absl::Status.
#pragma once

#include <exception>

#include "base/status.h"
#include "model/torch_error.h"

namespace ingot::rollout {

// Returns INTERNAL with `where`, or, if a device is out of memory, RESOURCE_EXHAUSTED with the keys that reduce memory
// use. Omits the stack trace at the end of a c10::Error.
inline absl::Status FromTorchException(const std::exception& error, const char* where) {
  return base::Annotate(
      model::FromTorchException(error,
                                "lower rollout.kv_cache_tokens or rollout.max_batch_tokens, or end other processes on "
                                "the device"),
      where);
}

}  // namespace ingot::rollout
