// All that can be known before a run starts, in one check: `ingot config check`, `ingot train` and `ingot launch` call it,
// so that a configuration which passes also starts. It starts nothing and sends no request. It may make agents.work_root.
#pragma once

#include <string>
#include <vector>

#include "app/checks/start_check.h"
#include "app/models/device.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// What asks.
enum class AskedBy {
  kConfigCheck,  // which command will start the run is not known: its keys decide
  kTrain,        // every role in this process; cluster.groups does not matter
  kLaunch,
  kDryRun,  // the plan may be for another machine: this one is not checked
};

struct RunCheck {
  ModelSetup model;
  DeviceChoice device;  // of `ingot train`
  StartCheck start;
  std::vector<std::string> notes;  // what was not checked here, and what a user may not expect
};

// Errors name the key at fault, and file, line or task.
absl::StatusOr<RunCheck> CheckRun(const RunConfig& config, AskedBy asked_by);

}  // namespace ingot::app
