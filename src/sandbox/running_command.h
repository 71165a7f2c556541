// RunningCommand watches one command of a sandbox: it collects output, enforces limits, and waits for the report of the
// sandbox's first process (launch_messages.h).
//
// The order of signals is decided here: SIGTERM at the time limit, then SIGKILL after Limits::term_grace; SIGKILL at
// once for a cancellation and every other limit. They are sent by launcher/sandbox_init.cc.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/status.h"
#include "sandbox/disk_watch.h"
#include "sandbox/launch_messages.h"
#include "sandbox/memory_watch.h"
#include "sandbox/process.h"
#include "sandbox/sandbox_launcher.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

// The sandbox limits to check while a command runs; null = do not check.
struct SandboxWatches {
  using SteadyClock = std::chrono::steady_clock;
  DiskWatch* disk = nullptr;
  MemoryWatch* memory = nullptr;

  // Makes the checks that are due. nullopt: no limit is exceeded.
  std::optional<Ending> Fault(SteadyClock::time_point now) const;
  SteadyClock::time_point next() const;
};

class RunningCommand {
 public:
  // The ends that this process keeps; the command has the others.
  RunningCommand(Fd control, Fd out, Fd err)
      : control_(std::move(control)), out_(std::move(out)), err_(std::move(err)) {}

  // Blocks until the last process of the command is gone. UNAVAILABLE: the sandbox's first process died. `failure` is
  // set if the command did not start; the outcome is then empty. `cancel` may be null.
  absl::StatusOr<Outcome> RunToEnd(const Limits& limits, const Cancellation* cancel, LaunchFailure& failure,
                                   const SandboxWatches& watches);

 private:
  using SteadyClock = std::chrono::steady_clock;

  // The limit that was exceeded; nullopt = the report came first, or can no longer come.
  std::optional<Ending> Watch(const Limits& limits, const Cancellation* cancel, const SandboxWatches& watches);
  // Asks the sandbox to end everything, and waits for the report.
  void Kill();
  void TakeReport();
  // Appends the output that is there now to `text`. Closes `fd` at end of file. False: the limit is exceeded.
  bool Read(Fd& fd, std::string& text, const Limits& limits);

  Fd control_, out_, err_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  std::string out_text_, err_text_;
  std::optional<LaunchReport> report_;
};

// Runs one command in an open sandbox to its end. `failure` is set if it did not start.
absl::StatusOr<Outcome> RunInOpenSandbox(const Fd& sandbox, const StartOptions& start, const Command& command,
                                         const Limits& limits, const Cancellation* cancel,
                                         const SandboxWatches& watches, LaunchFailure& failure);

}  // namespace ingot::sandbox
