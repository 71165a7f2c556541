// Checks the user's loss before a run starts.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Traces trainer.custom.function and tries the graph on a few tokens. Returns the graph, or empty if trainer.objective is
// not custom. Blocks while the interpreter runs. Returns the errors of TraceLoss and trainer::MakeCustomObjective.
absl::StatusOr<std::string> CheckCustomLoss(const RunConfig& config);

}  // namespace ingot::app
