// The one place that makes processes. Everything between vfork and exec lives in spawn.cc and is async-signal-safe.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "sandbox/process.h"

namespace ingot::sandbox {

// Owns a descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// `errno_value` as a status whose code says whose fault it is.
absl::Status ErrnoStatus(int errno_value, const std::string& what);

struct SpawnIo {
  int in = -1;   // becomes 0
  int out = -1;  // becomes 1
  int err = -1;  // becomes 2
};

// Starts the command in its own session. With `dies_with_thread` it gets SIGKILL when the calling thread ends, and
// `guard_fd` (if not -1) is told "+pid\n" before the command's first instruction.
absl::StatusOr<pid_t> Spawn(const Command& command, const Limits& limits, const SpawnIo& io, bool dies_with_thread,
                            int guard_fd);

}  // namespace ingot::sandbox
