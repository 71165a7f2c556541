// Evaluates one snapshot in this process. Shared by `ingot eval`, `ingot collect`, and `ingot serve --learn`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/roles/embedded.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "datapool/client.h"
#include "proto/scheduler.pb.h"
#include "weights/snapshot.h"

namespace ingot::app {

// Runs the agents on the tasks in `options`, avg_n samples each, with `snapshot` as version 0. Calls `report` with the
// result and the pool that contains the trees, and then stops the run. Calls `begun`, if set, after a successful start.
// `command` is the name shown in the progress display. Blocks until done. Returns CANCELLED if the process was asked to
// stop. REQUIRES: the run's total_steps is 0.
absl::Status EvaluateOnce(const std::string& command, const EvalOptions& options, const RunDir& dir, EmbeddedRun& run,
                          const std::shared_ptr<const weights::Snapshot>& snapshot,
                          const std::function<absl::Status(const v1::EvalStatusResponse&, datapool::Client&)>& report,
                          const std::function<absl::Status()>& begun = {});

// Makes the configuration use a model folder, with the folder's own adapters, chat format, and template.
void UseModelFolder(const std::string& folder, RunConfig& config);

}  // namespace ingot::app
