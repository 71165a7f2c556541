// `ingot simulate`: compares the window's orders in simulated time (scheduler/simulation.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "scheduler/simulation.h"

namespace ingot::app {

struct SimulateArgs {
  scheduler::SimulationOptions options;
  std::vector<std::string> orders;  // strict, windowed, greedy; empty = all three
  std::string run_dir;              // a recorded run that provides durations and scheduler.* settings; empty = none
  std::set<std::string> given;      // options set on the command line, which override the run's
  bool json = false;                // prints one JSON object per order
};

// Prints one line per order to stdout and returns the exit code.
int RunSimulate(const SimulateArgs& args);

// Returns the report as one line of JSON.
std::string SimulationJson(const std::string& order, const scheduler::SimulationReport& report);

}  // namespace ingot::app
