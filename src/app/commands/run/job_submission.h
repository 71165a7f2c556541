// Submits a run to a cluster: one Slurm job, or Kubernetes objects, whose nodes run `ingot node`.
#pragma once

#include <memory>
#include <string>

#include "app/cluster/launchers/run_launcher.h"
#include "app/models/model_setup.h"
#include "app/run/run_args.h"
#include "app/run/run_config.h"

namespace ingot::app {

// A job's launcher, and the file in the run's folder that the launcher's Start reads.
struct JobPlan {
  std::unique_ptr<RunLauncher> launcher;
  std::string file;
};

// REQUIRES: cluster.launcher is not local. `loaded` outlives the result.
JobPlan PlanJob(const LoadedConfig& loaded, const std::string& binary);

// Creates the run's folder and submits the job. No process holds the folder while the job is submitted: the job's
// trainer node acquires it, possibly before the submission ends. If the submission fails, restores the run that the job
// would have replaced.
absl::Status SubmitJob(const RunArgs& args, const LoadedConfig& loaded, const TextParts& text, JobPlan& job);

}  // namespace ingot::app
