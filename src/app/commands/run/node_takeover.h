// Manages the seats (app/cluster/takeover.h) of one node in a run: the engines that it claims, and the roles of other
// nodes that can move to it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/cluster/run_registry.h"
#include "app/cluster/run_roles.h"
#include "app/cluster/takeover.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

std::string NodeName(const std::string& group, int node);

// Returns whether this node holds the run's folder, so that its exit code is the run's exit code.
bool DrivesRun(const std::vector<RoleProcess>& roles);

// If engines can move, claims the engines in `roles`, and removes those that another node has taken over, which it
// reports to `print`. Returns FAILED_PRECONDITION if that leaves no role. `registry` may be null.
absl::Status ClaimEngines(const RunConfig& config, RunRegistry* registry, const std::string& node_name,
                          const std::function<void(const std::string& line)>& print, std::vector<RoleProcess>& roles);

// Starts watching the roles of other nodes that can move to the node with these roles. Returns an empty list if there
// are none or `registry` is null. `specs` start the roles that move. REQUIRES: `registry` outlives the result.
std::vector<std::unique_ptr<Takeover>> WatchOtherNodes(const RunConfig& config, RunRegistry* registry,
                                                       const std::string& node_name,
                                                       const std::vector<RoleProcess>& roles, const RoleSpecs& specs);

}  // namespace ingot::app
