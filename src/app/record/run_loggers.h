// The loggers of a run, as its configuration names them.
#pragma once

#include <memory>
#include <string>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "loggers/follower.h"

namespace ingot::app {

// Starts them; null = the configuration names none. `pool` outlives the follower; null = the run has no groups.
// INVALID_ARGUMENT: a file with a key cannot be read.
absl::StatusOr<std::unique_ptr<loggers::Follower>> FollowRun(const RunConfig& config, const RunDir& dir,
                                                             const std::string& effective_yaml, datapool::Client* pool);

}  // namespace ingot::app
