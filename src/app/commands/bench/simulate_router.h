// `ingot simulate router`: compares the ways to choose a call's engine on a trace (rollout/simulation/engines.h).
#pragma once

#include <string>

#include "rollout/simulation/engines.h"

namespace ingot::app {

struct SimulateRouterArgs {
  rollout::EngineSimulationOptions options;
  std::string trace;        // a file; empty = the default RL trace
  std::string write_trace;  // writes the default RL trace to this file instead of simulating; empty = simulates
  bool json = false;        // prints one JSON object per router
};

// Prints one line per router to stdout, and the number of decisions per second of the router `cost`. Returns the exit
// code.
int RunSimulateRouter(const SimulateRouterArgs& args);

}  // namespace ingot::app
