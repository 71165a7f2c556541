// Checks the number of threads that the system allows this process. A run needs threads for each role and each agent,
// and some of its libraries abort if they cannot create one. So the limit is checked before anything else starts.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Starts `count` threads and stops them. Returns RESOURCE_EXHAUSTED, naming the limits and which one to raise, if the
// system allows fewer threads.
absl::Status CheckThreads(int count);

// Estimate the number of threads used by a run with all roles in one process, by one role's process, by all `ingot
// launch` processes, and by `ingot serve` with `engines` engines of `threads` threads each, in that order. The
// estimates include the agents' processes, because the limit also counts them.
int ThreadsOf(const RunConfig& config);
int ThreadsOfRole(const RunConfig& config, const std::string& role);
int ThreadsOfLaunch(const RunConfig& config);
int ThreadsOfServing(int engines, int threads);

// Describes the limits that are set for this process: "ulimit -u is 200, the control group's pids.max is 1000".
std::string DescribeThreadLimits();

// Returns the error for a thread that could not start. `what` names the thread.
absl::Status TooFewThreads(const std::string& what);

}  // namespace ingot::app
