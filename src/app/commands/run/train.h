// Implements `ingot train`, `ingot config`, `ingot doctor`, and `ingot init`.
#pragma once

#include <string>

#include "app/commands/run/init.h"
#include "app/run/run_args.h"

namespace ingot::app {

int Train(const RunArgs& args);
// `gpus` names the GPUs of the machines to check for (app/models/gpu_card.h); empty = this machine.
int ConfigCheck(const RunArgs& args, const std::string& gpus = "");
int ConfigExplain(const std::string& key);
int ConfigSchema();
// If `args.config` is empty, uses the defaults plus the overrides.
int Doctor(const RunArgs& args);
int Init(const std::string& folder, InitReward reward);

}  // namespace ingot::app
