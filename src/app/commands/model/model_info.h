// `ingot model info`: a model's size, and the memory to serve and to train it.
#pragma once

#include <string>

#include "app/commands/model/model_command.h"
#include "base/status.h"

namespace ingot::app {

// Needs only the folder's config.json. Returns a JSON object or, with args.device, a table of the memory plan.
absl::StatusOr<std::string> ModelInfo(const ModelArgs& args);

}  // namespace ingot::app
