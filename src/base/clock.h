// Time, injected: nothing below the app reads a system clock by itself, so that no test sleeps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace ingot::base {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic, for durations and deadlines.
  virtual std::chrono::nanoseconds Now() const = 0;
  // Nanoseconds since the Unix epoch, for records.
  virtual int64_t UnixNanos() const = 0;

  // The process's real clock; never destroyed.
  static const Clock& Real();
};

// A configured number of seconds as a duration; 30 years stand for anything longer.
inline std::chrono::nanoseconds FromSeconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, 1e9) * 1e9));
}

// Advances only when told to. Thread safe. Both readings start at `start` and move together.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::chrono::nanoseconds start = std::chrono::seconds(1)) : now_(start.count()) {}
  std::chrono::nanoseconds Now() const override { return std::chrono::nanoseconds(now_.load()); }
  int64_t UnixNanos() const override { return now_.load(); }
  void Advance(std::chrono::nanoseconds by) { now_ += by.count(); }

 private:
  std::atomic<int64_t> now_;
};

}  // namespace ingot::base
