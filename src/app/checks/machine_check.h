// Whether this machine can start the run of a configuration: one check for `ingot config check` and for the commands that
// start the run, so that a configuration which passes also starts. It starts nothing and leaves nothing behind.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Errors name the key at fault: threads, the device, the run's folder, the addresses and files that the roles need.
// Returns what was not checked because another node of the run uses it.
absl::StatusOr<std::vector<std::string>> CheckMachine(const RunConfig& config);

}  // namespace ingot::app
