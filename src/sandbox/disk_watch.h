// A DiskWatch bounds the disk that a room uses. No kernel limit serves every file system without privileges, so the room's
// folders are counted while its command runs: at least once a second, and less often where counting takes long. A command
// may exceed the limit for that time. They are counted once more when it has ended. Used by the thread that runs the command.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ingot::sandbox {

struct DiskLimits {
  int64_t bytes = 0;  // 0 = no limit, here and below
  int64_t files = 0;  // folders count
};

class DiskWatch {
 public:
  using SteadyClock = std::chrono::steady_clock;

  // `folder` and everything below it.
  DiskWatch(std::string folder, const DiskLimits& limits) : folder_(std::move(folder)), limits_(limits) {}

  bool watches() const { return limits_.bytes > 0 || limits_.files > 0; }
  // Counts if it is time. True: a limit is exceeded.
  bool IsExceeded(SteadyClock::time_point now);
  // Counts now, for a command that has ended.
  bool IsExceededAtEnd() { return watches() && Count(); }
  SteadyClock::time_point next() const { return next_; }

 private:
  bool Count();

  const std::string folder_;
  const DiskLimits limits_;
  SteadyClock::time_point next_ = SteadyClock::now() + std::chrono::milliseconds(250);
};

}  // namespace ingot::sandbox
