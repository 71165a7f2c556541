// Classifies retryable errors and retries calls. A status payload stores how long a rejected caller should wait. The
// payload survives Annotate and gRPC (proto/grpc_status.h), and the gateway converts it to an HTTP Retry-After header.
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

// Returns true if the server was down or too slow, so a later attempt may get an answer.
inline bool MayAnswerLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Returns true if the server is down, slow, overloaded, or shutting down, so the same call may succeed later.
inline bool IsTransient(const absl::Status& status) {
  return MayAnswerLater(status) || absl::IsResourceExhausted(status) || absl::IsCancelled(status);
}

// Same as IsTransient, but for calls that always go to the current server. ABORTED means that another server replaced
// the server that was called. The caller may call the new server, but the old server must stop.
inline bool IsTransientOrMoved(const absl::Status& status) { return IsTransient(status) || absl::IsAborted(status); }

// Configures how Persist retries a call.
struct Retries {
  std::function<bool()> stopped;
  std::function<void(std::chrono::nanoseconds)> sleep;  // sleeps for this long, or until `stopped`
  std::chrono::nanoseconds pause{0};                    // the first pause; doubles up to longest_pause
  std::chrono::nanoseconds longest_pause{0};
  std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
  bool (*passes)(const absl::Status&) = IsTransient;
  std::function<void(const absl::Status&)> on_failure = {};  // called before each pause
  const Clock* clock = &Clock::Real();
};

// Calls `attempt` until it returns OK or a permanent error, and returns that status. Makes at least one attempt.
// Returns a transient error if an attempt fails and the caller is stopped or out of time. After the first failure,
// registers a Wait (base/waits.h) whose cause is "WHAT (message)".
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
