// Requests the state of a run's roles for `ingot status` and the launcher.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/status/status_endpoint.h"

namespace ingot::app {

// With this timeout, `ingot status` takes at most 10 s: an unresponsive role is reported within 6 s
// (unresponsive_roles.h), and the command starts within 1 s.
inline constexpr std::chrono::milliseconds kRoleAnswersWithin{3000};

// Queries all roles in parallel and returns within kRoleAnswersWithin. `registry` describes the registry that `places`
// is from.
std::vector<RoleStatus> AskRoles(const absl::StatusOr<std::vector<RolePlace>>& places, const std::string& registry,
                                 const ClusterOptions& cluster, const RpcAccess& access);

// Returns the registry's entries for the node agents in cluster.groups, with the roles that they run.
std::vector<RoleStatus> AskNodes(RunRegistry& registry, const std::vector<NodeGroup>& groups);

}  // namespace ingot::app
