// `ingot ROLE`: runs a single role.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

// Runs one of a run's roles in this process: gateway, rollout, datapool, scheduler, trainer, rewards, or agents.
// `index` is the engine, gateway, or pool index, or the trainer's rank. `supervised` = `ingot launch` started this
// process and decides when it ends.
int RunRole(const std::string& role, const RunArgs& args, int index, bool supervised);

}  // namespace ingot::app
