// `ingot node`.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

struct NodeArgs {
  RunArgs run;
  std::string group;  // of cluster.groups
  int node = -1;      // within the group; -1 = the launcher's variable (node.cc), or 0
  std::string probe;  // alive or ready: asks the node's agent instead; empty = runs it
};
// Runs the roles of one node of a run, and restarts them.
int RunNode(const NodeArgs& args);

}  // namespace ingot::app
