// Errors after which a caller asks again. The time that a refused caller should wait is a payload of the status. The
// payload survives Annotate and gRPC (proto/grpc_status.h), and the gateway turns it into HTTP's Retry-After.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/status.h"

namespace ingot::base {

// Whether a server that gave this error may answer a later attempt: it is down, or it is late.
inline bool MayAnswerLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

inline constexpr char kRetryAfterMs[] = "ingot.retry_after_ms";

inline absl::Status WithRetryAfter(absl::Status status, int64_t milliseconds) {
  status.SetPayload(kRetryAfterMs, absl::Cord(absl::StrCat(milliseconds)));
  return status;
}

inline std::optional<int64_t> RetryAfterMs(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterMs);
  int64_t milliseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) return std::nullopt;
  return milliseconds;
}

}  // namespace ingot::base
