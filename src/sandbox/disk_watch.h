// Limits a sandbox's disk usage and detects when the underlying disk is full. No kernel limit works on every file
// system without privileges, so the watch measures the sandbox's folders and its processes' unnamed files
// (deleted_files.h) while a command runs. It measures once a second, or less often if measuring is slow, so a command
// may briefly exceed the limit. It measures again after the command ends. Descriptors in flight between sockets can
// hide files, so descriptors that are in flight in three consecutive checks count as exceeding the limit. Used only by
// the thread that runs the command.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "sandbox/process.h"
#include "sandbox/trees/deleted_files.h"

namespace ingot::sandbox {

struct DiskLimits {
  int64_t bytes = 0;  // 0 = no limit; likewise for `files`
  int64_t files = 0;  // includes folders

  bool operator==(const DiskLimits&) const = default;
};

class DiskWatch {
 public:
  using SteadyClock = std::chrono::steady_clock;

  // Watches everything in `folder` and the unnamed files that processes of `sandbox` have open.
  DiskWatch(std::string folder, const DiskLimits& limits, const SandboxOwner& sandbox = {})
      : folder_(std::move(folder)), limits_(limits), sandbox_(sandbox) {}

  // Checks the limits if a check is due. Returns kDiskFull if a limit is exceeded, kNoSpace if the file system is full,
  // and nullopt otherwise.
  std::optional<Ending> Fault(SteadyClock::time_point now);
  // Checks right after a command has ended. Also checks folders that the command made inaccessible, which may stay
  // accessible if the limit is exceeded.
  std::optional<Ending> FaultAtEnd() const;
  SteadyClock::time_point next() const { return next_; }

 private:
  std::optional<Ending> Check(bool opens, const DeletedFiles& deleted) const;

  const std::string folder_;
  const DiskLimits limits_;
  const SandboxOwner sandbox_;
  int checks_in_flight_ = 0;  // consecutive checks that found descriptors in flight
  SteadyClock::time_point next_ = SteadyClock::now() + std::chrono::milliseconds(250);
};

// Returns whether the file system of `folder` has less than 1 MiB or no inodes left for non-root users.
bool IsFull(const std::string& folder);

}  // namespace ingot::sandbox
