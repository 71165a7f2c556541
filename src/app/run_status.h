// Asks the roles of a run for their state, for `ingot status` and its launcher.
#pragma once

#include <vector>

#include "app/grpc_access.h"
#include "app/run_config.h"
#include "app/status_endpoint.h"

namespace ingot::app {

// Asks every role that listens. Each has two seconds.
std::vector<RoleStatus> AskRoles(const ClusterOptions& cluster, const RpcAccess& access);

}  // namespace ingot::app
