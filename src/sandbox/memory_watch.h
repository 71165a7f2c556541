// A MemoryWatch limits the memory that a sandbox's processes use together, if no control group does. It finds them and
// adds them up while the sandbox's command runs: twice a second, or less often if that takes long. The limit is
// exceeded if two looks, 20 ms apart, both say so for the processes that both saw; a command may exceed it between
// looks. Memory that processes share counts once. Pages of files that they map do not count, since the kernel can take
// them back. If this process may not read another's parts, pages of a fork count for parent and child, and shared
// memory counts as much as the process with the most of it. Used by the thread that runs the command.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

namespace ingot::sandbox {

class MemoryWatch {
 public:
  using SteadyClock = std::chrono::steady_clock;

  // Of `first` and its descendants. Without a limit (0), or without `first` (0), it never looks.
  MemoryWatch(pid_t first, int64_t limit_bytes);

  // Looks if it is time. True: the limit is exceeded.
  bool IsExceeded(SteadyClock::time_point now);
  SteadyClock::time_point next() const { return next_; }

 private:
  const pid_t first_;
  const int64_t limit_bytes_;
  SteadyClock::time_point next_;
};

}  // namespace ingot::sandbox
