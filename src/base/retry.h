// Errors after which a caller retries. The time that a rejected caller should wait is a payload of the status. The
// payload survives Annotate and gRPC (proto/grpc_status.h), and the gateway turns it into HTTP's Retry-After.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/clock.h"
#include "base/status.h"

namespace ingot::base {

// Whether a server that gave this error may answer a later attempt: it is down, or it is late.
inline bool MayAnswerLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Whether the same call may succeed later: its server is down, late, full, or itself being stopped.
inline bool IsTransient(const absl::Status& status) {
  return MayAnswerLater(status) || absl::IsResourceExhausted(status) || absl::IsCancelled(status);
}

// The same for a call that goes to the current server. ABORTED says that another server replaced the server of this
// call: the caller may ask the new server, but the replaced server must stop.
inline bool IsTransientOrMoved(const absl::Status& status) { return IsTransient(status) || absl::IsAborted(status); }

// How Persist repeats a call.
struct Retries {
  std::function<bool()> stopped;
  std::function<void(std::chrono::nanoseconds)> sleep;  // for this long, or until `stopped`
  std::chrono::nanoseconds pause{0};                    // the first; each later one is twice as long
  std::chrono::nanoseconds longest_pause{0};
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  bool (*passes)(const absl::Status&) = IsTransient;
  std::function<void(const absl::Status&)> on_failure = {};  // before each pause
  const Clock* clock = &Clock::Real();
};

// Calls `attempt` until it returns OK or a lasting error, and returns that. Returns a temporary error if the caller is
// stopped or out of time after the attempt, so there is always one attempt. From the first failure on, it is a wait of
// the process (base/waits.h): "WHAT (message)".
absl::Status Persist(const Retries& how, std::string_view what, const std::function<absl::Status()>& attempt);

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
