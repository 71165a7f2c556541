// Reads all data files of a configuration at the run's start, so that a missing or wrong file of a later stage is
// found before an earlier stage trains for hours.
#pragma once

#include <cstdint>
#include <string>

#include "app/run/run_config.h"
#include "base/status.h"
#include "dataset/tasks.h"

namespace ingot::app {

struct RunData {
  dataset::TaskSource tasks;       // data.tasks
  dataset::TaskSource eval_tasks;  // eval.tasks, all sets
  int64_t conversations = 0;       // data.sft
  int64_t pairs = 0;               // data.dpo
};

// The files of all sets of held-out tasks, for messages.
std::string PathsOf(const EvalOptions& eval);

// Reads every file whole. The error names key, file and line; for a missing file with a relative path also the folder
// that the path is relative to. INVALID_ARGUMENT also for more held-out tasks than one evaluation may have. Call it
// before the run's folder is made: a run that cannot start must not use up its name.
absl::StatusOr<RunData> ReadDataFiles(const RunConfig& config);

}  // namespace ingot::app
