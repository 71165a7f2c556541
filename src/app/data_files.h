// The check of the files that a configuration names under data and eval.
#pragma once

#include "app/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Reads every file whole, and discards it. The error names key, file and line; for a missing file with a relative path
// also the folder that the path starts from. INVALID_ARGUMENT also for more held-out tasks than one evaluation may
// have. To be called before the run's folder is made: a run that cannot start must not use up its name.
absl::Status CheckDataFiles(const RunConfig& config);

}  // namespace ingot::app
