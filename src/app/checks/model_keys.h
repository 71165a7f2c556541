// Checks configuration keys that only some models support. Runs before the run starts.
#pragma once

#include "app/run/run_config.h"
#include "base/status.h"
#include "model/config.h"

namespace ingot::app {

// Returns INVALID_ARGUMENT if an expert key would have no effect: the model has no experts, its routers have no bias,
// or no engine records the routes that the trainer should replay. Also returns INVALID_ARGUMENT if engines cannot serve
// the model's type (model/served_types.h).
absl::Status CheckModelKeys(const RunConfig& config, const model::ModelConfig& shape);

}  // namespace ingot::app
