// Supervises one command running in a sandbox: collects its output, enforces limits, and waits for the report from the
// sandbox's first process (launch_messages.h).
//
// This class decides when signals are sent: SIGTERM at the time limit and SIGKILL after Limits::term_grace, or SIGKILL
// immediately on cancellation and for all other limits. launcher/sandbox_init.cc sends them.
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

// Sandbox limits to check while a command runs; null = not checked.
struct SandboxWatches {
  using SteadyClock = std::chrono::steady_clock;
  DiskWatch* disk = nullptr;
  MemoryWatch* memory = nullptr;

  // Runs the checks that are due. Returns nullopt if no limit is exceeded.
  std::optional<Ending> Fault(SteadyClock::time_point now) const;
  SteadyClock::time_point next() const;
};

class RunningCommand {
 public:
  // Takes this process's ends of the socket and pipes. The command has the other ends.
  RunningCommand(Fd control, Fd out, Fd err)
      : control_(std::move(control)), out_(std::move(out)), err_(std::move(err)) {}

  // Blocks until the command's last process exits. Returns UNAVAILABLE if the sandbox's first process died. If the
  // command did not start, sets `failure` and returns an empty outcome. `cancel` may be null.
  absl::StatusOr<Outcome> RunToEnd(const Limits& limits, const Cancellation* cancel, LaunchFailure& failure,
                                   const SandboxWatches& watches);

 private:
  using SteadyClock = std::chrono::steady_clock;

  // Returns the limit that was exceeded, or nullopt if the report arrived first or can no longer arrive.
  std::optional<Ending> Watch(const Limits& limits, const Cancellation* cancel, const SandboxWatches& watches);
  // Ends everything in the sandbox and waits for the report.
  void Kill();
  void TakeReport();
  // Appends the available output to `text`. Closes `fd` at end of file. Returns false if the limit is exceeded.
  bool Read(Fd& fd, std::string& text, const Limits& limits);

  Fd control_, out_, err_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  std::string out_text_, err_text_;
  std::optional<LaunchReport> report_;
};

// Runs one command in an open sandbox until it ends. Sets `failure` if the command did not start.
absl::StatusOr<Outcome> RunInOpenSandbox(const Fd& sandbox, const StartOptions& start, const Command& command,
                                         const Limits& limits, const Cancellation* cancel,
                                         const SandboxWatches& watches, LaunchFailure& failure);

}  // namespace ingot::sandbox
