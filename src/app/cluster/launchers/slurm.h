// Runs Ingot as one Slurm job: writes the `sbatch` script, submits it, and watches the job.
//
//   ingot launch ── sbatch RUN/launch.sbatch ──▶ the job's shell on the first node
//                                                  srun --relative=0 ingot node --group control ──▶ its roles
//                                                  srun --relative=1 ingot node --group engines ──▶ its roles on all
//
// Slurm does not restart tasks, so each node's agent restarts its roles. When the group with the trainer ends, the
// script shuts the other groups down cleanly and exits with that group's exit code. It also writes the code to
// RUN/launch.exit.
//
// If all groups request the same kind of node, a node failure ends only that node's tasks (--no-kill). Groups with
// their own options form a heterogeneous job, and Slurm requeues the whole job when a node fails. The run then resumes
// from its last checkpoint.
#pragma once

#include <string>
#include <vector>

#include "app/cluster/launchers/run_launcher.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

struct SlurmScript {
  std::string name;                  // run name
  std::string folder;                // run folder, on a file system shared by all nodes
  std::string binary;                // path of this program
  std::vector<NodeGroup> groups;     // one of them includes the trainer
  std::vector<std::string> options;  // sbatch options for every group
  double drain_s = 600;              // Slurm signals the job to stop drain_s + 30 seconds before its time limit
};

// Returns the sbatch options that request a group's `resources`: cpu, memory, and GPUs such as nvidia.com/gpu.
// Returns INVALID_ARGUMENT, naming the resource, if sbatch cannot request one.
absl::StatusOr<std::vector<std::string>> SlurmResources(const NodeGroup& group);
// Returns true if the group's resources or options, or the `options` of all groups, set the number of CPUs per node.
bool AsksForCpus(const NodeGroup& group, const std::vector<std::string>& options);

// Returns the script. REQUIRES: SlurmResources is OK for each group.
std::string RenderSlurm(const SlurmScript& script);

// Returns FAILED_PRECONDITION if the groups form a heterogeneous job and this Slurm installation does not support
// those.
absl::Status CheckSlurm(const std::vector<NodeGroup>& groups, const RunCommand& run);

// Submits the script at `path` and returns the job id.
absl::StatusOr<std::string> SubmitSlurm(const std::string& path, const RunCommand& run);

class SlurmLauncher final : public JobLauncher {
 public:
  // `job` is the id of a job submitted earlier; empty = Start submits one.
  SlurmLauncher(SlurmScript script, JobOptions options, std::string job = "");

  absl::StatusOr<std::string> Plan() const override { return RenderSlurm(script_); }
  // Finds one of this user's jobs that runs the script in this run's folder. Runs with the same name in different
  // folders are different runs.
  absl::StatusOr<std::string> Present() override;
  // REQUIRES: the script is in FOLDER/launch.sbatch.
  absl::Status Start() override;
  absl::Status Stop() override;

 protected:
  std::string Describe() const override { return "job " + job_; }
  std::string Advice() const override;
  absl::StatusOr<State> Poll() override;

 private:
  std::string ScriptFile() const { return script_.folder + "/launch.sbatch"; }

  const SlurmScript script_;
  std::string job_;
  bool pending_ = false;  // the job was queued at the last poll
};

}  // namespace ingot::app
