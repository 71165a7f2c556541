// Limits the total memory of a sandbox's processes if no control group does. While a command runs, finds the processes
// and sums their memory twice a second, or less often if that is slow. The limit counts as exceeded if two checks 20 ms
// apart both exceed it, counting only processes that both checks saw. A command may exceed the limit between checks.
// Shared memory counts once. Pages of mapped files do not count because the kernel can reclaim them. If this process
// may not read another process's details, pages shared after a fork count for both processes, and shared memory counts
// once, at the size mapped by the process that maps the most. Used only by the thread that runs the command.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

namespace ingot::sandbox {

class MemoryWatch {
 public:
  using SteadyClock = std::chrono::steady_clock;

  // Watches `first` and its descendants. Does nothing if `limit_bytes` or `first` is 0.
  MemoryWatch(pid_t first, int64_t limit_bytes);

  // Runs a check if one is due. Returns whether the limit is exceeded.
  bool IsExceeded(SteadyClock::time_point now);
  SteadyClock::time_point next() const { return next_; }

 private:
  const pid_t first_;
  const int64_t limit_bytes_;
  SteadyClock::time_point next_;
};

}  // namespace ingot::sandbox
