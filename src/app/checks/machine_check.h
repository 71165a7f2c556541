// Checks whether this machine can start a run. `ingot config check` and the commands that start a run share this check,
// so a configuration that passes also starts. Starts no processes and leaves no files behind.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Checks the thread limit, the device, the run's folder, and the addresses and files that the roles need. Errors name
// the key at fault. Returns the items that were skipped because another node in the run uses them.
absl::StatusOr<std::vector<std::string>> CheckMachine(const RunConfig& config);

// Same as CheckMachine, but for a run on other machines: checks only the keys, and returns what was skipped.
absl::StatusOr<std::vector<std::string>> CheckOtherMachine(const RunConfig& config);

}  // namespace ingot::app
