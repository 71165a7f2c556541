// Converts torch's exceptions in the engine to absl::Status.
#pragma once

#include <exception>

#include "base/status.h"
#include "model/torch_error.h"

namespace ingot::rollout {

// Same as model::FromTorchException, but names the keys that lower the engine's need of memory. `where` is the prefix.
inline absl::Status FromTorchException(const std::exception& error, const char* where) {
  return base::Annotate(
      model::FromTorchException(error,
                                "lower rollout.kv_cache_tokens or rollout.max_batch_tokens, or end other processes on "
                                "the device"),
      where);
}

}  // namespace ingot::rollout
