// `ingot eval`: evaluates a checkpoint on a configuration's held-out tasks.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

int Evaluate(const std::string& checkpoint, const RunArgs& args);

}  // namespace ingot::app
