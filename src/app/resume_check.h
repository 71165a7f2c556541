// Whether a run may go on with another configuration than it was left with.
#pragma once

#include "app/run_config.h"
#include "app/run_dir.h"
#include "base/status.h"

namespace ingot::app {

// Compares with RUN/config.yaml, which holds the effective configuration of the run's last start: call it before that
// is written anew. INVALID_ARGUMENT if the run cannot go on: its groups and batches are made, and journalled, for one
// scheduler.group_size and one scheduler.groups_per_step. Other keys that have changed are named in the log, since a
// run that goes on with other values is not the one that it would have been.
absl::Status CheckResumable(const LoadedConfig& loaded, const RunDir& dir);

}  // namespace ingot::app
