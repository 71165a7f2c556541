// The source code of the W&B helper process. The build generates the definition from src/loggers/wandb_helper.py.
#pragma once

#include <string_view>

namespace ingot::loggers {

extern const std::string_view kWandbHelper;

}  // namespace ingot::loggers
