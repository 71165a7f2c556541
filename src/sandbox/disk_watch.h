// A DiskWatch limits the disk that a sandbox uses, and notices when the disk below it is full. No kernel limit works on
// every file system without privileges. So the watch counts the sandbox's folders, and the unnamed files that its
// processes hold (deleted_files.h), while the command runs: once a second, or less often if counting takes long. A
// command may exceed the limit for that time. The folders are counted once more when it has ended. Descriptors in
// flight between sockets at three looks in a row hide files from everyone, so they count as over the limit. Used by the
// thread that runs the command.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sandbox/process.h"
#include "sandbox/trees/deleted_files.h"

namespace ingot::sandbox {

struct DiskLimits {
  int64_t bytes = 0;  // 0 = no limit, here and below
  int64_t files = 0;  // folders count

  bool operator==(const DiskLimits&) const = default;
};

class DiskWatch {
 public:
  using SteadyClock = std::chrono::steady_clock;

  // `folder` and everything below it, and what the processes of `sandbox` hold.
  DiskWatch(std::string folder, const DiskLimits& limits, const SandboxOwner& sandbox = {})
      : folder_(std::move(folder)), limits_(limits), sandbox_(sandbox) {}

  // Looks if a look is due. kDiskFull: a limit is exceeded. kNoSpace: the file system is full. nullopt: neither.
  std::optional<Ending> Fault(SteadyClock::time_point now);
  // Looks now, for a command that has ended, also into folders that it closed. If the limit is exceeded, they may stay
  // open.
  std::optional<Ending> FaultAtEnd() const;
  SteadyClock::time_point next() const { return next_; }

 private:
  std::optional<Ending> Look(bool opens, const DeletedFiles& deleted) const;

  const std::string folder_;
  const DiskLimits limits_;
  const SandboxOwner sandbox_;
  int looks_in_flight_ = 0;  // in a row
  SteadyClock::time_point next_ = SteadyClock::now() + std::chrono::milliseconds(250);
};

// True: the file system of `folder` has less than a MiB or no file left for users that are not root.
bool IsFull(const std::string& folder);

}  // namespace ingot::sandbox
