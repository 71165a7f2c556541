// Checks whether a run may continue with a changed configuration.
#pragma once

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Compares the configuration with RUN/config.yaml, which is the effective configuration from the last time the run
// started. Call this before rewriting that file. Returns INVALID_ARGUMENT if scheduler.group_size or
// scheduler.groups_per_step changed, because the journal depends on them. Also returns INVALID_ARGUMENT if the folder
// contains a collection or an evaluation instead of a run. Logs other changed keys, a changed model.chat_template, and a
// changed custom loss, which affect the run but do not prevent it from continuing.
absl::Status CheckResumable(const LoadedConfig& loaded, const RunDir& dir);

}  // namespace ingot::app
