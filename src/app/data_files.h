// The files that a configuration names under data and eval.
#pragma once

#include "app/run_config.h"
#include "base/status.h"

namespace ingot::app {

// Reads all of them, whole, and keeps nothing. The error names key, file and line; of a file that is not there, also
// the folder that its relative path starts from. INVALID_ARGUMENT too for held-out tasks that are more than one
// evaluation may have. For before a run's folder is made: a run that could not start must not
// take the name of the next one.
absl::Status CheckDataFiles(const RunConfig& config);

}  // namespace ingot::app
