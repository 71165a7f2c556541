// Reads all data files in a configuration before the run starts, so a bad file for a late stage fails the run at once
// instead of after hours of training.
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

// Returns the paths of all held-out task files, for error messages.
std::string PathsOf(const EvalOptions& eval);

// Reads every file completely. Errors name the key, the file, and the line. If a relative path does not exist, the
// error also names the directory that it is relative to. Returns INVALID_ARGUMENT if there are more held-out tasks than
// one evaluation may have. Call this before creating the run's folder, because a run that cannot start should not
// occupy its name.
absl::StatusOr<RunData> ReadDataFiles(const RunConfig& config);

}  // namespace ingot::app
