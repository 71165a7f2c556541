// One evaluation of one snapshot in this process: the common part of `ingot eval` and `ingot collect`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/models/device.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "datapool/client.h"
#include "proto/scheduler.pb.h"
#include "weights/snapshot.h"

namespace ingot::app {

// Runs the agents on the tasks of config.eval, avg_n samples each, with `snapshot` as version 0, and calls `report`
// with the result and the pool that holds the trees. Calls `begun`, if there is one, when the start has succeeded.
// `command` names the progress on the terminal. Blocks until it is done; CANCELLED: the process was asked to stop.
// REQUIRES: config.scheduler.total_steps is 0.
absl::Status EvaluateOnce(const std::string& command, const RunConfig& config, const RunDir& dir,
                          const ModelSetup& model, const std::shared_ptr<const weights::Snapshot>& snapshot,
                          const DeviceChoice& device,
                          const std::function<absl::Status(const v1::EvalStatusResponse&, datapool::Client&)>& report,
                          const std::function<absl::Status()>& begun = {});

}  // namespace ingot::app
