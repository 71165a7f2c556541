// The launcher for cluster.launcher local: runs every role as a process on this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/cluster/launchers/run_launcher.h"
#include "app/cluster/status/role_waits.h"
#include "app/models/model_setup.h"
#include "app/run/run_args.h"
#include "app/run/run_config.h"

namespace ingot::app {

// Returns the socket where the launcher of the run in `folder` answers `ingot status`.
std::string LaunchSocket(const std::string& folder);

// The result logs `warnings` once the run's folder is open, and reports `waits` as its own. REQUIRES: args, loaded, and
// waits outlive the result.
std::unique_ptr<RunLauncher> MakeLocalLauncher(const RunArgs& args, const LoadedConfig& loaded, std::string binary,
                                               std::vector<std::string> warnings, const ModelSetup& model,
                                               const RoleWaits& waits);

}  // namespace ingot::app
