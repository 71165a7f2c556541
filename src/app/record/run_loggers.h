// Starts the loggers that a run's configuration names.
#pragma once

#include <memory>
#include <string>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "loggers/follower.h"

namespace ingot::app {

// Returns null if no logger is configured. `pool` must outlive the follower; null = the run has no groups. Returns
// INVALID_ARGUMENT if a key file cannot be read.
absl::StatusOr<std::unique_ptr<loggers::Follower>> FollowRun(const RunConfig& config, const RunDir& dir,
                                                             const std::string& effective_yaml, datapool::Client* pool);

}  // namespace ingot::app
