// `ingot node`: runs the agent on one of a run's nodes.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

struct NodeArgs {
  RunArgs run;
  std::string group;  // name in cluster.groups
  int node = -1;      // index within the group; -1 = use the launcher's variable (node.cc), or 0 without one
  std::string probe;  // "alive" or "ready" = queries the node's agent and exits; empty = runs the agent
};
// Runs and restarts the roles on one of a run's nodes.
int RunNode(const NodeArgs& args);

}  // namespace ingot::app
