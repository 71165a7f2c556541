// Warnings about the loss and the policy gradient: valid trainer settings whose effect is probably not intended
// (run_warnings.h has the rules). Pure.
#pragma once

#include <string>
#include <vector>

#include "app/checks/run_warnings.h"
#include "app/run/run_config.h"

namespace ingot::app {

// Known before the run's first step. Empty for a run without training tasks.
std::vector<std::string> LossWarnings(const RunConfig& config, const DataFacts& data);

}  // namespace ingot::app
