// Starts, watches and stops a run on one kind of machines. `ingot launch` makes the launcher that cluster.launcher
// names:
//
//   local        every role as a process of this machine (supervisor.h)
//   slurm        one job, in which every node runs its agent (slurm.h)
//   kubernetes   objects, whose pods run the agents (kubernetes_launcher.h)
//
// Each implementation keeps these rules:
//  1. Plan has no effect: no file, no process, no call. Present only asks.
//  2. After an error, Start leaves nothing of the run, or the error says what is left.
//  3. Stop gives the run the time that its configuration allows, and is safe when the run is over.
//  4. Watch returns once nothing of the run computes.
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

  // The processes or objects that Start would start, as text.
  virtual absl::StatusOr<std::string> Plan() const = 0;
  // What already runs or waits for this run, whatever started it, and how to end it: "job 7 is PENDING (Resources);
  // ...". Empty = nothing, as far as a process that does not hold the run's folder can see.
  virtual absl::StatusOr<std::string> Present() { return std::string(); }
  virtual absl::Status Start() = 0;
  // Blocks until the run is over; returns its exit code. Once `stop` is set it calls Stop, and keeps waiting.
  // CANCELLED: the run was stopped. ABORTED: it ended without an exit code.
  virtual absl::StatusOr<int> Watch(const std::atomic<bool>& stop) = 0;
  // Asks the run to end in order, and returns at once.
  virtual absl::Status Stop() = 0;
};

// Runs a command and returns what it printed on stdout; its stderr is dropped if it succeeds. UNAVAILABLE: it cannot be
// started, or it failed; the text is its stderr, then its stdout.
using RunCommand = std::function<absl::StatusOr<std::string>(const std::vector<std::string>& argv)>;
absl::StatusOr<std::string> RunHere(const std::vector<std::string>& argv);
// RunHere gives a command a minute: sbatch and kubectl wait for servers. DEADLINE_EXCEEDED: it was killed then.
absl::StatusOr<std::string> RunWithin(std::chrono::milliseconds timeout, const std::vector<std::string>& argv);

struct JobOptions {
  std::chrono::milliseconds poll{2000};
  RunCommand run = RunHere;
  std::function<void(const std::string&)> on_status;  // a line per change of the job's state
};

// A launcher of a job in another system, whose state it polls.
class JobLauncher : public RunLauncher {
 public:
  absl::StatusOr<int> Watch(const std::atomic<bool>& stop) override;

 protected:
  struct State {
    std::string text;  // for people; empty = not known
    bool over = false;
    std::optional<int> code;  // of a job that is over
  };

  explicit JobLauncher(JobOptions options) : options_(std::move(options)) {}

  // The job's name in messages: "job 7".
  virtual std::string Describe() const = 0;
  // Where to look for the reason if the job ends without an exit code.
  virtual std::string Advice() const = 0;
  // An error: the state is unknown; Watch asks again.
  virtual absl::StatusOr<State> Look() = 0;

  absl::StatusOr<std::string> Run(const std::vector<std::string>& argv) const { return options_.run(argv); }
  void Report(const std::string& line) const { options_.on_status(line); }

 private:
  const JobOptions options_;
};

}  // namespace ingot::app
