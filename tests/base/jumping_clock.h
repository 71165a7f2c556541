// A clock whose wall time a test sets, as an administrator or NTP does; its monotonic time comes from another clock.
#pragma once

#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace ingot::base::testing {

class JumpingClock final : public Clock {
 public:
  explicit JumpingClock(const Clock& steady) : steady_(steady) {}
  void SetWall(std::chrono::nanoseconds ahead) { ahead_ = ahead.count(); }
  std::chrono::nanoseconds Now() const override { return steady_.Now(); }
  int64_t UnixNanos() const override { return steady_.UnixNanos() + ahead_; }
  bool WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return steady_.WaitUntil(changed, mu, deadline);
  }

 private:
  const Clock& steady_;
  std::atomic<int64_t> ahead_{0};
};

}  // namespace ingot::base::testing
