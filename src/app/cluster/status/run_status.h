// Asks the roles of a run for their state, for `ingot status` and its launcher.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/status/status_endpoint.h"

namespace ingot::app {

// An unresponsive role is reported within 6 s (unresponsive_roles.h), and the command that asks starts within a second:
// 10 s in all.
inline constexpr std::chrono::milliseconds kRoleAnswersWithin{3000};

// Asks all roles at their addresses at once: the answer comes within kRoleAnswersWithin. `places`: from the registry
// that `registry` describes.
std::vector<RoleStatus> AskRoles(const absl::StatusOr<std::vector<RolePlace>>& places, const std::string& registry,
                                 const ClusterOptions& cluster, const RpcAccess& access);

// The agents of the nodes of cluster.groups, with what they run, as the registry has them.
std::vector<RoleStatus> AskNodes(RunRegistry& registry, const std::vector<NodeGroup>& groups);

}  // namespace ingot::app
