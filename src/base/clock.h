// A Clock is the time of a process: the system's, or one that a test moves by hand. A class with deadlines is given a
// Clock; it reads the time from it and waits on it. A test of a deadline then takes no time.
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
  // Monotonic, for durations and deadlines.
  virtual std::chrono::nanoseconds Now() const = 0;
  // Nanoseconds since the Unix epoch, for records.
  virtual int64_t UnixNanos() const = 0;
  // Blocks until `changed` is signalled or Now() has reached `deadline`; false: the deadline was reached. May wake
  // without cause: callers loop over their condition.
  virtual bool WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) = 0;

  // The process's real clock; never destroyed.
  static const Clock& Real();
};

// A configured number of seconds as a duration; 30 years stand for anything longer.
inline std::chrono::nanoseconds FromSeconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e9) * 1e9));
}

// A clock that moves only when a test calls Advance. Thread safe. Both readings start at `start` and move together.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::chrono::nanoseconds start = std::chrono::seconds(1)) : now_(start.count()) {}
  std::chrono::nanoseconds Now() const override { return std::chrono::nanoseconds(now_.load()); }
  int64_t UnixNanos() const override { return now_.load(); }
  bool WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Wakes every thread whose deadline is reached. REQUIRES: the caller holds no mutex that a thread waits with.
  void Advance(std::chrono::nanoseconds by);
  // Blocks until at least `count` threads wait for a deadline of this clock. A test calls it before Advance, where the
  // threads under test must have read the time first.
  void AwaitWaiters(int count) const;

 private:
  // A thread inside WaitUntil. It stands on that thread's stack.
  struct Waiter {
    Mutex* mu;
    CondVar* changed;
    std::chrono::nanoseconds deadline;
    bool woken = false;
  };

  std::atomic<int64_t> now_;  // written under waiters_mu_
  mutable Mutex waiters_mu_;  // taken after a waiter's own mutex
  mutable CondVar waiters_changed_;
  mutable std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(waiters_mu_);
};

}  // namespace ingot::base
