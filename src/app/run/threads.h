// The number of threads that the system allows this process. A run takes some for each role and each agent, and the
// libraries that it uses abort if they get none. So the limit is checked before anything else starts.
#pragma once

#include <string>

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Starts `count` threads and ends them. RESOURCE_EXHAUSTED: the system allows fewer; names the limits and what to
// raise.
absl::Status CheckThreads(int count);

// About as many threads as a process takes, agents' processes among them, which the limit counts too: a run whose roles
// are all in one process, one process of a role, all processes of `ingot launch`, and `ingot serve` with `engines` of
// `threads` each.
int ThreadsOf(const RunConfig& config);
int ThreadsOfRole(const RunConfig& config, const std::string& role);
int ThreadsOfLaunch(const RunConfig& config);
int ThreadsOfServing(int engines, int threads);

// "ulimit -u is 200, the control group's pids.max is 1000": the limits of this process that are set.
std::string DescribeThreadLimits();

// The error of a thread that did not start. `what` says which.
absl::Status TooFewThreads(const std::string& what);

}  // namespace ingot::app
