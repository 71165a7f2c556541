// A run as one Slurm job: writes the `sbatch` script, submits it and watches the job.
//
//   ingot launch ── sbatch RUN/launch.sbatch ──▶ the job's shell on the first node
//                                                  srun --relative=0 ingot node --group control ──▶ its roles
//                                                  srun --relative=1 ingot node --group engines ──▶ its roles on all
//
// Slurm does not restart tasks: each node's agent restarts its roles. When the group with the trainer ends, the script
// stops the others in order and ends with that group's exit code, which it also writes to RUN/launch.exit.
//
// The death of a node ends only its own tasks (--no-kill), if all groups ask for the same kind of node. Groups with
// their own options make a heterogeneous job, which Slurm requeues as a whole when a node dies; the run then resumes
// from its last checkpoint.
#pragma once

#include <string>
#include <vector>

#include "app/cluster/launchers/run_launcher.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

struct SlurmScript {
  std::string name;                  // the run's
  std::string folder;                // the run's, on a file system that all nodes see
  std::string binary;                // this program
  std::vector<NodeGroup> groups;     // one of them has the trainer
  std::vector<std::string> options;  // of sbatch, for every group
  double drain_s = 600;              // the job is asked to stop this long plus half a minute before its time limit
};

// The options of sbatch that ask for a group's `resources`: cpu, memory, and GPUs such as nvidia.com/gpu. INVALID_ARGUMENT
// names a resource that Slurm cannot be asked for.
absl::StatusOr<std::vector<std::string>> SlurmResources(const NodeGroup& group);
// Whether the group's resources or options, or the `options` of all groups, say how many CPUs a node gives.
bool AsksForCpus(const NodeGroup& group, const std::vector<std::string>& options);

// The text of the script. REQUIRES: SlurmResources of each group.
std::string RenderSlurm(const SlurmScript& script);

// FAILED_PRECONDITION: the groups make a heterogeneous job, which this Slurm does not accept.
absl::Status CheckSlurm(const std::vector<NodeGroup>& groups, const RunCommand& run);

// Submits the script in `path`; returns the job's id.
absl::StatusOr<std::string> SubmitSlurm(const std::string& path, const RunCommand& run);

class SlurmLauncher final : public JobLauncher {
 public:
  // `job`: a job that was submitted before; empty = Start submits it.
  SlurmLauncher(SlurmScript script, JobOptions options, std::string job = "");

  absl::StatusOr<std::string> Plan() const override { return RenderSlurm(script_); }
  // A job of this user with the script of this run's folder. Runs with one name in several folders are different runs.
  absl::StatusOr<std::string> Present() override;
  // REQUIRES: the script is in FOLDER/launch.sbatch.
  absl::Status Start() override;
  absl::Status Stop() override;

 protected:
  std::string Describe() const override { return "job " + job_; }
  std::string Advice() const override;
  absl::StatusOr<State> Look() override;

 private:
  std::string ScriptFile() const { return script_.folder + "/launch.sbatch"; }

  const SlurmScript script_;
  std::string job_;
  bool pending_ = false;  // it waited in the queue when last asked
};

}  // namespace ingot::app
