// Warns about trainer settings for the loss and the policy gradient that are valid but probably unintended. The rules
// for warnings are in run_warnings.h. Pure.
#pragma once

#include <string>
#include <vector>

#include "app/checks/run_warnings.h"
#include "app/run/run_config.h"

namespace ingot::app {

// Returns the warnings that are known before the run's first step. Returns none for a run without training tasks.
std::vector<std::string> LossWarnings(const RunConfig& config, const DataFacts& data);

}  // namespace ingot::app
