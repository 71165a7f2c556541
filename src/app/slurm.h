// A run as one Slurm job: the script of `sbatch`, its submission, and the watch over the job.
//
//   ingot launch ── sbatch RUN/launch.sbatch ──▶ the job's shell on the first node
//                                                  srun --relative=0 ingot node --group control ──▶ its roles
//                                                  srun --relative=1 ingot node --group engines ──▶ its roles, on each node
//
// Slurm starts no task again: each node's agent restarts its roles. When the group with the trainer ends, the script stops
// the others in order and ends with that group's exit code, which it also writes to RUN/launch.exit.
//
// The death of a node ends its own tasks alone (--no-kill), where all groups ask for the same kind of node. Groups with
// options of their own make a heterogeneous job, which Slurm puts into the queue again as a whole when a node dies; the run
// then goes on from its last checkpoint.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "app/run_config.h"
#include "base/status.h"

namespace ingot::app {

struct SlurmScript {
  std::string name;                  // the run's
  std::string folder;                // the run's, on a file system that all nodes see
  std::string binary;                // this program
  std::vector<NodeGroup> groups;     // one of them has the trainer
  std::vector<std::string> options;  // of sbatch, for every group
  double drain_s = 600;              // the job is told to stop so long before its time limit, and half a minute more
};

// The text of the script.
std::string RenderSlurm(const SlurmScript& script);

// Runs a command and returns its output. UNAVAILABLE: it cannot be started, or it failed; the text is its output.
using RunCommand = std::function<absl::StatusOr<std::string>(const std::vector<std::string>& argv)>;
absl::StatusOr<std::string> RunHere(const std::vector<std::string>& argv);

// Submits the script in `path`; returns the job's id.
absl::StatusOr<std::string> SubmitSlurm(const std::string& path, const RunCommand& run);

struct SlurmWatch {
  std::string job;
  std::string exit_file;  // where the script writes its exit code
  std::chrono::milliseconds poll{2000};
  RunCommand run = RunHere;
  std::function<void(const std::string&)> on_status;  // a line per change of the job's state
};

// Blocks until the job is over; returns its exit code. `stop` tells the job to stop in order, once, and waits on. CANCELLED: it
// was stopped. ABORTED: it ended without an exit code.
absl::StatusOr<int> WatchSlurm(const SlurmWatch& watch, const std::atomic<bool>& stop);

}  // namespace ingot::app
