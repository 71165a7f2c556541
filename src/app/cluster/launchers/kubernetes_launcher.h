// A run on Kubernetes, through kubectl: it applies the objects of kubernetes.h, watches the Job of the trainer's group,
// and deletes all of them at the run's end. Deleted pods get the run's stop time to end in order.
#pragma once

#include <optional>
#include <string>

#include "app/cluster/launchers/run_launcher.h"
#include "app/run/run_config.h"

namespace ingot::app {

class KubernetesLauncher final : public JobLauncher {
 public:
  // `text`: of the effective configuration. `file`: where Start finds the objects, which Plan prints. REQUIRES:
  // `config` outlives it.
  KubernetesLauncher(const RunConfig& config, std::string text, std::string file, JobOptions options);

  absl::StatusOr<std::string> Plan() const override;
  // Objects with the run's label, in its namespace.
  absl::StatusOr<std::string> Present() override;
  // UNAVAILABLE: kubectl's error. Objects that were already applied are deleted.
  absl::Status Start() override;
  absl::Status Stop() override;

 protected:
  std::string Describe() const override { return "job " + job_; }
  std::string Advice() const override;
  absl::StatusOr<State> Look() override;

 private:
  std::string Selector() const;  // of the run's objects
  // The Job's state, and which pods do not run and why. Sets code_ when the Job is over.
  absl::StatusOr<State> LookAtJob();
  absl::StatusOr<std::string> Kubectl(std::vector<std::string> argv) const;

  const RunConfig& config_;
  const std::string text_, file_, job_;
  bool stopping_ = false;    // the objects were deleted
  std::optional<int> code_;  // of the run, once its Job is over
};

}  // namespace ingot::app
