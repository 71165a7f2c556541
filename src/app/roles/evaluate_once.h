// One evaluation of one snapshot in this process: the common part of `ingot eval` and `ingot collect`.
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

// Runs the agents on the tasks of `options`, avg_n samples each, with `snapshot` as version 0, and calls `report` with
// the result and the pool that holds the trees. Then stops the run. Calls `begun`, if there is one, when the start has
// succeeded. `command` names the progress on the terminal. Blocks until it is done; CANCELLED: the process was asked to
// stop. REQUIRES: the run's total_steps are 0.
absl::Status EvaluateOnce(const std::string& command, const EvalOptions& options, const RunDir& dir, EmbeddedRun& run,
                          const std::shared_ptr<const weights::Snapshot>& snapshot,
                          const std::function<absl::Status(const v1::EvalStatusResponse&, datapool::Client&)>& report,
                          const std::function<absl::Status()>& begun = {});

}  // namespace ingot::app
