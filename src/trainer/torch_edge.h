// The torch edge: c10::Error and its kin become absl::Status here and go no further.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>

#include "base/status.h"

namespace ingot::trainer {

// Runs `body`, which returns an absl::Status or StatusOr. A torch error is INTERNAL (RESOURCE_EXHAUSTED if memory ran
// out), with `context` in front.
template <typename Body>
auto AtTorchEdge(const std::string& context, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat(context, ": out of memory; lower micro_batch_tokens: ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(context, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(context, ": ", error.what()));
  }
}

}  // namespace ingot::trainer
