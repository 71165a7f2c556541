// Asks the roles of a run for their state, for `ingot status` and its launcher.
#pragma once

#include <vector>

#include "app/grpc_access.h"
#include "app/run_registry.h"
#include "app/status_endpoint.h"

namespace ingot::app {

// Asks every role that listens, at the place where the registry has it. Each has two seconds.
std::vector<RoleStatus> AskRoles(RunRegistry& registry, const ClusterOptions& cluster, const RpcAccess& access);

// The agents of the nodes of cluster.groups, with what they run, as the registry has them.
std::vector<RoleStatus> AskNodes(RunRegistry& registry, const std::vector<NodeGroup>& groups);

}  // namespace ingot::app
