// Whether the nodes of a run can start as its configuration says: one check for `ingot launch`, `ingot node` and
// `ingot config check`. It starts nothing and sends no request.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Number of nodes that cluster.groups names.
int NodesOf(const ClusterOptions& cluster);

// INVALID_ARGUMENT names the key at fault: groups that do not run every role once, a launcher without groups or without
// the keys that it needs, several nodes without a shared token, and a loopback address that the nodes of a job would share.
absl::Status CheckNodes(const RunConfig& config);

// INVALID_ARGUMENT: the nodes of the run do not share a token. Only a launcher of one machine works without it.
absl::Status CheckSharedToken(const RunConfig& config);

// INVALID_ARGUMENT: cluster.groups names several nodes, and `ingot launch` would start all roles on this machine.
absl::Status CheckLaunchedHere(const RunConfig& config);

// What a start of the nodes does not reject, and a user may not expect: nodes that `ingot launch` does not start, that
// can only be on one machine, or whose roles get a single CPU.
std::vector<std::string> NotesOfNodes(const RunConfig& config);

}  // namespace ingot::app
