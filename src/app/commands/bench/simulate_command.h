// `ingot simulate`: compares the orders of the window, in simulated time (scheduler/simulation.h).
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
  std::string run_dir;              // a recorded run, for its durations; its scheduler.* are used too. Empty = none
  std::set<std::string> given;      // options given here that take precedence over the run's
  bool json = false;                // one JSON object per order
};

// Prints a line per order to stdout; returns the exit code.
int RunSimulate(const SimulateArgs& args);

// The report as one line of JSON.
std::string SimulationJson(const std::string& order, const scheduler::SimulationReport& report);

}  // namespace ingot::app
