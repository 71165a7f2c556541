// Time limits that hold on a loaded machine and under sanitizers: they compare the thread's own CPU time with a limit
// that allows for instrumentation.
#pragma once

#include <ctime>

namespace ingot {

// CPU seconds that `work` takes on this thread.
template <typename Work>
double CpuSeconds(Work&& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

// How much slower than a release build code may run.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
inline constexpr double kSlowdown = 30;
#else
inline constexpr double kSlowdown = 1;
#endif

}  // namespace ingot
