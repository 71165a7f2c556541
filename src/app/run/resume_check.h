// The check that a run may continue with a changed configuration.
#pragma once

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Compares with RUN/config.yaml, the effective configuration of the run's last start; to be called before that file is
// written anew. INVALID_ARGUMENT: scheduler.group_size or scheduler.groups_per_step changed, for which the run's groups
// and batches are journalled; or the folder holds a collection or an evaluation, not a run. The log names other changed
// keys, and a changed model.chat_template: the run continues, but differently than without the change.
absl::Status CheckResumable(const LoadedConfig& loaded, const RunDir& dir);

}  // namespace ingot::app
