// A Launcher owns the launcher process (launcher/main.cc), which starts commands in rooms.
//
//   Ingot (keys, threads) ──socket──▶ launcher ──clone──▶ room's first process ──▶ command
//        └────────────────── control socket of the start ───────┘
//
// The launcher's program is part of this binary, and runs from a file in memory. If the process dies, running commands
// go on, and the next start begins a new one. If Ingot dies, every room's first process sees the end of its control
// socket and ends its room. Thread safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/launch_messages.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

struct LauncherOptions {
  uint32_t walls = 0;               // WallPart
  std::vector<std::string> hidden;  // with kMountNamespace: absolute paths; missing ones are skipped
};

// One start, as StartHeader has it.
struct StartOptions {
  int64_t uid = 0;
  bool checks = false;
  std::string work_root, room, working_dir, path;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value"
  std::vector<LaunchLimit> limits;
};

class Launcher {
 public:
  // FAILED_PRECONDITION: the machine refuses a part of the wall, in the step of `failure`.
  static absl::StatusOr<std::unique_ptr<Launcher>> Make(LauncherOptions options, LaunchFailure& failure);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Asks for a start and returns its control socket, which a LaunchReport ends. UNAVAILABLE: there is no launcher.
  absl::StatusOr<Fd> Start(const StartOptions& start, const SpawnIo& io);

  pid_t pid() const;

 private:
  explicit Launcher(LauncherOptions options) : options_(std::move(options)) {}
  absl::Status Begin(LaunchFailure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const LauncherOptions options_;
  mutable base::Mutex mu_;
  Fd socket_ ABSL_GUARDED_BY(mu_);
  pid_t pid_ ABSL_GUARDED_BY(mu_) = -1;
};

// "mount of /proc: Operation not permitted"
std::string DescribeFailure(const LaunchFailure& failure);

}  // namespace ingot::sandbox
