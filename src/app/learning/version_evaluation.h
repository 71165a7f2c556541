// Evaluates a version on the run's held-out tasks while the server keeps running: in the same process, but with a
// separate engine, gateway, agents, and pool, in RUN/evaluations/NAME.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "view/evaluation/requirement.h"

namespace ingot::app {

// Returns the configuration of an evaluation: eval.tasks and agents.recipes without training.
RunConfig EvaluationConfig(const RunConfig& config, const std::string& run_path, const std::string& name);

// Blocks until the evaluation of the model folder is done. Replaces an earlier one with this name. Returns CANCELLED if
// the process was asked to stop, and the errors of EmbeddedRun::Start.
absl::StatusOr<view::Figures> EvaluateVersion(const RunConfig& config, const RunDir& run, const std::string& folder,
                                              const std::string& name, const std::string& device);

}  // namespace ingot::app
