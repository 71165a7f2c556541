// Runs Ingot on Kubernetes through kubectl. Applies the objects from kubernetes.h, watches the Job of the trainer's
// group, and deletes all objects when the run ends. Deleted pods have the run's stop time to shut down cleanly.
#pragma once

#include <optional>
#include <string>

#include "app/cluster/launchers/run_launcher.h"
#include "app/run/run_config.h"

namespace ingot::app {

class KubernetesLauncher final : public JobLauncher {
 public:
  // `text` is the effective configuration. `file` is the path of the file with the objects that Start applies. Plan
  // returns its contents. REQUIRES: `config` outlives the launcher.
  KubernetesLauncher(const RunConfig& config, std::string text, std::string file, JobOptions options);

  absl::StatusOr<std::string> Plan() const override;
  // Returns the objects in the namespace that have the run's label.
  absl::StatusOr<std::string> Present() override;
  // Returns UNAVAILABLE with kubectl's error. Deletes the objects that were already applied.
  absl::Status Start() override;
  absl::Status Stop() override;

 protected:
  std::string Describe() const override { return "job " + job_; }
  std::string Advice() const override;
  absl::StatusOr<State> Poll() override;

 private:
  std::string Selector() const;  // selects the run's objects
  // Returns the Job's state, including which pods are not running and why. Sets code_ when the Job is over.
  absl::StatusOr<State> PollJob();
  absl::StatusOr<std::string> Kubectl(std::vector<std::string> argv) const;

  const RunConfig& config_;
  const std::string text_, file_, job_;
  bool stopping_ = false;    // the objects were deleted
  std::optional<int> code_;  // the run's exit code, set once its Job is over
};

}  // namespace ingot::app
