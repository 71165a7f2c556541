// Sends metrics by step to MLflow over its REST API 2.0, as a run in an experiment. Characters that MLflow does not
// accept in a metric name are replaced by '_'.
#pragma once

#include "base/json.h"
#include "loggers/logger.h"

namespace ingot::loggers {

struct MlflowOptions {
  std::string url;                   // tracking server URL, such as http://127.0.0.1:5000
  std::string experiment = "ingot";  // created if missing
  std::string key;                   // bearer token; empty = none
};

class Mlflow final : public Logger {
 public:
  // `run` is the run's name. `config` is its configuration, which becomes a tag. `state` is State() from an earlier
  // process.
  Mlflow(MlflowOptions options, std::string run, std::string config, const std::string& state, PostJson post);

  std::string name() const override { return "mlflow"; }
  std::string State() const override { return run_id_; }
  absl::Status Rows(std::span<const view::Row> rows) override;
  absl::Status End(bool ok) override;

 private:
  absl::StatusOr<std::string> Ask(const std::string& method, const base::json::object& body);
  absl::StatusOr<std::string> ExperimentId();
  absl::Status Begin(double time);

  const MlflowOptions options_;
  const std::string run_, config_;
  const PostJson post_;
  std::string run_id_;  // MLflow run id; empty = not created yet
  double last_time_ = 0;
};

// Returns a metric name in the form that MLflow accepts.
std::string MlflowName(const std::string& metric);

}  // namespace ingot::loggers
