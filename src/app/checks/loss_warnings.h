// Warnings about the loss and the policy gradient: settings of the trainer that are allowed, and whose effect is rarely the
// one that was meant (run_warnings.h has the rules). Pure.
#pragma once

#include <string>
#include <vector>

#include "app/checks/run_warnings.h"
#include "app/run/run_config.h"

namespace ingot::app {

// Known before the run's first step; none of a run without training tasks.
std::vector<std::string> LossWarnings(const RunConfig& config, const DataFacts& data);

}  // namespace ingot::app
