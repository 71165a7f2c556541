// An executor without threads and the clock that it runs on. Its tasks run inside RunReady and Advance, on the test's
// own thread, each timer at exactly its time.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "base/executor.h"

namespace ingot::base {

class ManualExecutor {
 public:
  ManualClock& clock() { return clock_; }
  Executor& executor() { return executor_; }
  int RunReady() { return executor_.RunReady(); }

  // Advances the clock by `by`, stopping at every timer in between; returns the number of tasks that ran.
  int Advance(std::chrono::nanoseconds by) {
    const std::chrono::nanoseconds end = clock_.Now() + by;
    int ran = RunReady();
    while (executor_.NextDue().value_or(std::chrono::nanoseconds::max()) <= end) {
      clock_.Advance(*executor_.NextDue() - clock_.Now());
      ran += RunReady();
    }
    clock_.Advance(end - clock_.Now());
    return ran + RunReady();
  }

 private:
  ManualClock clock_;
  Executor executor_{{.name = "manual", .threads = 0}, clock_};
};

}  // namespace ingot::base
