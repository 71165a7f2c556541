// Converts torch's exceptions in the engine to absl::Status.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "base/printable.h"
#include "base/status.h"

namespace ingot::rollout {

// Returns INTERNAL with `where`, or RESOURCE_EXHAUSTED with the keys that lower the need if a device has no memory left.
// The text of a c10::Error ends with a stack trace, which is left out.
inline absl::Status FromTorchException(const std::exception& error, const char* where) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(where,
                     ": out of memory; lower rollout.kv_cache_tokens or rollout.max_batch_tokens, or end other "
                     "processes on the device: ",
                     base::Shown(torch_error->what_without_backtrace())));
  }
  return absl::InternalError(
      absl::StrCat(where, ": ", torch_error != nullptr ? torch_error->what_without_backtrace() : error.what()));
}

}  // namespace ingot::rollout
