// Checks whether a run's nodes can start as configured. Shared by `ingot launch`, `ingot node`, and `ingot config
// check`. Starts no processes and sends no requests.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Returns the number of nodes in cluster.groups.
int NodesOf(const ClusterOptions& cluster);

// Returns INVALID_ARGUMENT, naming the key, for groups that do not run every role once, a launcher without groups or a
// required key, several nodes without a shared token, or a loopback address in a job with several nodes.
absl::Status CheckNodes(const RunConfig& config);

// Returns INVALID_ARGUMENT if the run's nodes do not share a token. Only a single-machine launcher works without one.
absl::Status CheckSharedToken(const RunConfig& config);

// Returns INVALID_ARGUMENT if cluster.groups names several nodes but `ingot launch` would start all roles on this
// machine.
absl::Status CheckLaunchedHere(const RunConfig& config);

// Returns notes about settings that are valid but may surprise the user: nodes that `ingot launch` does not start,
// nodes that must share one machine, and nodes whose roles get a single CPU.
std::vector<std::string> NotesOfNodes(const RunConfig& config);

}  // namespace ingot::app
