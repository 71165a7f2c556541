#include "base/clock.h"

namespace ingot::base {
namespace {

class RealClock final : public Clock {
 public:
  std::chrono::nanoseconds Now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  int64_t UnixNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace ingot::base
