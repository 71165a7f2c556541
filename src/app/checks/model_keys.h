// Checks keys that only some models support against the model's shape, before the run starts.
#pragma once

#include "app/run/run_config.h"
#include "base/status.h"
#include "model/config.h"

namespace ingot::app {

// INVALID_ARGUMENT names a key of experts that would do nothing: the model has no experts, its routers have no bias, or
// no engine records the routes that the trainer is to replay. Also a model folder of a type that engines do not serve
// (model/served_types.h).
absl::Status CheckModelKeys(const RunConfig& config, const model::ModelConfig& shape);

}  // namespace ingot::app
