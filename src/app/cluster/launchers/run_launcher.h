// Starts, watches, and stops a run on one kind of machine. `ingot launch` creates the launcher that cluster.launcher
// names:
//
//   local        runs every role as a process on this machine (supervisor.h)
//   slurm        submits one job, where every node runs its agent (slurm.h)
//   kubernetes   applies objects whose pods run the agents (kubernetes_launcher.h)
//
// Implementations must follow these rules:
//   1. Plan has no side effects: no files, processes, or calls. Present only reads.
//   2. If Start fails, it cleans everything up, or its error lists the leftovers.
//   3. Stop gives the run its configured stop time. Calling it after the run has ended is safe.
//   4. Watch returns only after all of the run's work has stopped.
//
// Not thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::app {

class RunLauncher {
 public:
  virtual ~RunLauncher() = default;

  // Describes the processes or objects that Start would create.
  virtual absl::StatusOr<std::string> Plan() const = 0;
  // Describes what is already running or queued for this run, no matter who started it, and how to end it: "job 7 is
  // PENDING (Resources); ...". Empty = found nothing. The caller does not hold the run's folder, so the search may be
  // incomplete.
  virtual absl::StatusOr<std::string> Present() { return std::string(); }
  virtual absl::Status Start() = 0;
  // Blocks until the run is over and returns its exit code. Once `stop` is set, calls Stop and keeps waiting. Returns
  // CANCELLED if the run was stopped, and ABORTED if it ended without an exit code.
  virtual absl::StatusOr<int> Watch(const std::atomic<bool>& stop) = 0;
  // Requests a clean shutdown and returns immediately.
  virtual absl::Status Stop() = 0;
};

// Runs a command and returns its stdout. Discards its stderr if it succeeds. Returns UNAVAILABLE if it cannot be
// started or fails, with stderr and then stdout as the message.
using RunCommand = std::function<absl::StatusOr<std::string>(const std::vector<std::string>& argv)>;
absl::StatusOr<std::string> RunHere(const std::vector<std::string>& argv);
// Same as RunHere, but with a custom timeout. RunHere allows one minute, because sbatch and kubectl wait for servers.
// Returns DEADLINE_EXCEEDED if the command was killed at the timeout.
absl::StatusOr<std::string> RunWithin(std::chrono::milliseconds timeout, const std::vector<std::string>& argv);

struct JobOptions {
  std::chrono::milliseconds poll{2000};
  RunCommand run = RunHere;
  std::function<void(const std::string&)> on_status;  // receives one line per change of the job's state
};

// Base class for launchers that submit a job to another system and poll its state.
class JobLauncher : public RunLauncher {
 public:
  absl::StatusOr<int> Watch(const std::atomic<bool>& stop) override;

 protected:
  struct State {
    std::string text;  // human-readable; empty = unknown
    bool over = false;
    std::optional<int> code;  // exit code of a finished job
  };

  explicit JobLauncher(JobOptions options) : options_(std::move(options)) {}

  // Returns the job's name for messages, such as "job 7".
  virtual std::string Describe() const = 0;
  // Returns a hint about where to find the reason if the job ends without an exit code.
  virtual std::string Advice() const = 0;
  // Reads the job's state. Returns an error if the state is unknown; Watch then polls again.
  virtual absl::StatusOr<State> Poll() = 0;

  absl::StatusOr<std::string> Run(const std::vector<std::string>& argv) const { return options_.run(argv); }
  void Report(const std::string& line) const { options_.on_status(line); }

 private:
  const JobOptions options_;
};

}  // namespace ingot::app
