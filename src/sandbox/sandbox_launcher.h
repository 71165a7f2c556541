// Owns the launcher process (launcher/main.cc), which opens sandboxes.
//
//   Ingot (keys, threads) ──socket──▶ launcher ──clone──▶ sandbox's first process ──vfork──▶ command
//        └─────────────── the sandbox's socket, a start's socket ────┘
//
// The launcher program is part of this binary and runs from an in-memory file. If the launcher dies, open sandboxes
// continue, and the next Open starts a new launcher. If Ingot dies, each sandbox's first process detects that its
// sockets were closed and ends its sandbox. Thread safe.
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
  uint32_t isolation = 0;  // IsolationPart
  std::string work_root;
  std::vector<std::string> hidden;    // kMountNamespace: absolute paths; missing ones are skipped
  std::vector<std::string> visible;   // kRootFolder or kLandlock: absolute paths that sandboxes see
  std::vector<std::string> sources;   // kRootFolder: paths that are, or contain, image root folders
  std::string filter;                 // kSeccomp: the bytes of an array of struct sock_filter
  Measure left_out = Measure::kNone;  // for tests
};

// Describes one sandbox. Has the same fields as SandboxHeader.
struct OpenOptions {
  int64_t uid = 0;
  bool fake_root = false;
  bool layered = false;
  int64_t shm_bytes = 64 << 20;
  std::string work_root, sandbox, image;
  std::vector<std::string> layers;
  std::vector<std::string> binds;  // "FOLDER=PATH"
  std::vector<int> groups;         // descriptors of ControlGroup::entrances()
  const Freezer* freezer = nullptr;
};

// An open sandbox. Closing `socket` ends its first process.
struct OpenedSandbox {
  Fd socket;
  Fd listener;      // kNetNamespace: accepts the sandbox's connections to the gateway
  Fd work, home;    // folders of a layered sandbox as its commands see them
  pid_t first = 0;  // the first process; 0 = unknown
};

// Describes one start. Has the same fields as StartHeader.
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
  // Returns FAILED_PRECONDITION if the machine does not allow part of the isolation, and sets `failure` to the step
  // that failed.
  static absl::StatusOr<std::unique_ptr<SandboxLauncher>> Make(SandboxLauncherOptions options, LaunchFailure& failure);
  ~SandboxLauncher();
  SandboxLauncher(const SandboxLauncher&) = delete;
  SandboxLauncher& operator=(const SandboxLauncher&) = delete;

  // Opens a sandbox and blocks until its isolation is set up. Sets `failure` if a step failed. Returns UNAVAILABLE if
  // there is no launcher or it does not respond.
  absl::StatusOr<OpenedSandbox> Open(const OpenOptions& options, LaunchFailure& failure);

  pid_t pid() const;

 private:
  explicit SandboxLauncher(SandboxLauncherOptions options) : options_(std::move(options)) {}
  absl::Status Begin(LaunchFailure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends an Open message. Starts a new launcher if the previous one has died.
  absl::Status Ask(const std::vector<int>& fds);
  void End() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SandboxLauncherOptions options_;
  mutable base::Mutex mu_;
  Fd socket_ ABSL_GUARDED_BY(mu_);
  pid_t pid_ ABSL_GUARDED_BY(mu_) = -1;
};

// Asks a sandbox's first process to start a command. Returns the start's socket, which delivers a LaunchReport when the
// command ends. Returns UNAVAILABLE if the process has exited.
absl::StatusOr<Fd> StartIn(const Fd& sandbox, const StartOptions& start, const SpawnIo& io);

// Requests a TCP socket in the sandbox's network from its first process. Returns UNAVAILABLE if the process has exited
// or cannot create one. REQUIRES: no command is running.
absl::StatusOr<Fd> SocketOf(const Fd& sandbox);

// Returns a description such as "mount of /proc: Operation not permitted".
std::string DescribeFailure(const LaunchFailure& failure);

}  // namespace ingot::sandbox
