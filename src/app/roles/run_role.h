// `ingot ROLE`.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

// Runs one role of a run as this process: gateway, rollout, datapool, scheduler, trainer or agents. `index`: number of
// the engine, or rank of the trainer. `supervised`: `ingot launch` started this process and decides when it ends.
int RunRole(const std::string& role, const RunArgs& args, int index, bool supervised);

}  // namespace ingot::app
