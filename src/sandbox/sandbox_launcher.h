// A Launcher owns the launcher process (launcher/main.cc), which opens sandboxes.
//
//   Ingot (keys, threads) ──socket──▶ launcher ──clone──▶ sandbox's first process ──vfork──▶ command
//        └─────────────── the sandbox's socket, a start's socket ────┘
//
// The launcher's program is part of this binary, and runs from a file in memory. If the process dies, open sandboxes
// continue, and the next Open starts a new one. If Ingot dies, every sandbox's first process sees its sockets close and
// ends its sandbox. Thread safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/groups/freezer.h"
#include "sandbox/launch_messages.h"
#include "sandbox/measures.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

struct SandboxLauncherOptions {
  uint32_t walls = 0;  // WallPart
  std::string work_root;
  std::vector<std::string> hidden;    // with kMountNamespace: absolute paths; missing ones are skipped
  std::vector<std::string> visible;   // with kRootFolder or kLandlock: absolute paths that sandboxes see
  std::vector<std::string> sources;   // with kRootFolder: paths at or below which root folders of images may lie
  std::string filter;                 // with kSeccomp: struct sock_filter's bytes
  Measure left_out = Measure::kNone;  // for tests
};

// One sandbox, as SandboxHeader has it.
struct OpenOptions {
  int64_t uid = 0;
  bool fake_root = false;
  bool layered = false;
  int64_t shm_bytes = 64 << 20;
  std::string work_root, sandbox, image;
  std::vector<std::string> layers;
  std::vector<std::string> binds;  // "FOLDER=PATH"
  std::vector<int> groups;         // descriptors of ControlGroup's entrances
  const Freezer* freezer = nullptr;
};

// An open sandbox. Its first process ends when `socket` is closed.
struct OpenedSandbox {
  Fd socket;
  Fd listener;      // with kNetNamespace: the sandbox's connections to the gateway
  Fd work, home;    // of a layered sandbox, as its commands see them
  pid_t first = 0;  // the first process; 0 = unknown
};

// One start, as StartHeader has it.
struct StartOptions {
  bool checks = false;
  bool runs_stdin = false;
  bool stays = false;
  int gateway_port = 0;
  std::string working_dir, path;
  std::vector<std::string> arguments;
  std::vector<std::string> variables;  // "NAME=value"
  std::vector<LaunchLimit> limits;
};

class SandboxLauncher {
 public:
  // FAILED_PRECONDITION: the machine does not allow a part of the wall; `failure` has the step.
  static absl::StatusOr<std::unique_ptr<SandboxLauncher>> Make(SandboxLauncherOptions options, LaunchFailure& failure);
  ~SandboxLauncher();
  SandboxLauncher(const SandboxLauncher&) = delete;
  SandboxLauncher& operator=(const SandboxLauncher&) = delete;

  // Opens a sandbox and blocks until its wall stands. `failure` is set if a step failed. UNAVAILABLE: no launcher, or
  // no answer.
  absl::StatusOr<OpenedSandbox> Open(const OpenOptions& options, LaunchFailure& failure);

  pid_t pid() const;

 private:
  explicit SandboxLauncher(SandboxLauncherOptions options) : options_(std::move(options)) {}
  absl::Status Begin(LaunchFailure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends an Open, to a new launcher if the last one died.
  absl::Status Ask(const std::vector<int>& fds);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SandboxLauncherOptions options_;
  mutable base::Mutex mu_;
  Fd socket_ ABSL_GUARDED_BY(mu_);
  pid_t pid_ ABSL_GUARDED_BY(mu_) = -1;
};

// Asks the first process of a sandbox to start a command, and returns the start's socket, which ends with a
// LaunchReport. UNAVAILABLE: the process is gone.
absl::StatusOr<Fd> StartIn(const Fd& sandbox, const StartOptions& start, const SpawnIo& io);

// Asks the first process of a sandbox, while no command runs, for a TCP socket of the sandbox's network. UNAVAILABLE:
// the process is gone, or has none.
absl::StatusOr<Fd> SocketOf(const Fd& sandbox);

// "mount of /proc: Operation not permitted"
std::string DescribeFailure(const LaunchFailure& failure);

}  // namespace ingot::sandbox
