// Checks a configuration for `ingot serve --learn` before anything starts.
#pragma once

#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Returns INVALID_ARGUMENT, naming the key, if the configuration cannot be used with `ingot serve --learn`.
absl::Status CheckLearning(const RunConfig& config);

}  // namespace ingot::app
