// Doubts about the loss and the policy gradient: settings of the trainer that are allowed, and whose effect is rarely the
// one that was meant (doubts.h has the rules). Pure.
#pragma once

#include <string>
#include <vector>

#include "app/doubts.h"
#include "app/run_config.h"

namespace ingot::app {

// Known before the run's first step; none of a run without training tasks.
std::vector<std::string> LossDoubts(const RunConfig& config, const DataFacts& data);

}  // namespace ingot::app
