// The agent on one node of a run: starts and restarts the node's roles, and reports what is running to the registry. On
// the node that drives the run, it also serves the page and runs the loggers.
#pragma once

#include <string>
#include <vector>

#include "app/cluster/run_roles.h"
#include "app/commands/run/node.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Returns the socket where the agent of node `name` answers probes.
std::string NodeSocket(const RunDir& dir, const std::string& name);

// Blocks until the run ends or this process is asked to stop. Returns the process's exit code. `node` is the node's
// index in its group.
absl::StatusOr<int> RunNodeAgent(const NodeArgs& args, const LoadedConfig& loaded, int node,
                                 std::vector<RoleProcess> roles);

}  // namespace ingot::app
