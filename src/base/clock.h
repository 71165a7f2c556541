// A Clock is either the system clock or one that a test advances manually. Classes with deadlines read the time from a
// Clock and wait on it, so deadline tests do not take real time.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/mutex.h"

namespace ingot::base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Returns the monotonic time, for durations and deadlines.
  virtual std::chrono::nanoseconds Now() const = 0;
  // Returns nanoseconds since the Unix epoch, for records.
  virtual int64_t UnixNanos() const = 0;
  // Blocks until `changed` is signaled or Now() reaches `deadline`. Returns false if the deadline was reached. May wake
  // up spuriously, so callers must loop over their condition.
  virtual bool WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) = 0;

  // Returns the real clock, which is never destroyed.
  static const Clock& Real();
};

// Converts a configured number of seconds to a duration. Values above 1e9 seconds (about 30 years) are capped.
inline std::chrono::nanoseconds FromSeconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e9) * 1e9));
}

// A clock that advances only when a test calls Advance. Thread safe. Both readings start at `start`.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::chrono::nanoseconds start = std::chrono::seconds(1)) : now_(start.count()) {}
  std::chrono::nanoseconds Now() const override { return std::chrono::nanoseconds(now_.load()); }
  int64_t UnixNanos() const override { return now_.load(); }
  bool WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Wakes every thread whose deadline has been reached. REQUIRES: the caller does not hold a waiter's mutex.
  void Advance(std::chrono::nanoseconds by);
  // Blocks until at least `count` threads are waiting on this clock. A test calls it before Advance if the threads
  // under test must have read the time first.
  void AwaitWaiters(int count) const;

 private:
  // A thread inside WaitUntil. Allocated on that thread's stack.
  struct Waiter {
    Mutex* mu;
    CondVar* changed;
    std::chrono::nanoseconds deadline;
    bool woken = false;
  };

  std::atomic<int64_t> now_;  // written with waiters_mu_ held
  mutable Mutex waiters_mu_;  // acquired after a waiter's own mutex
  mutable CondVar waiters_changed_;
  mutable std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(waiters_mu_);
};

}  // namespace ingot::base
