// Checks a run before it starts. `ingot config check`, `ingot train`, and `ingot launch` all call it, so a
// configuration that passes also starts. It starts no processes and sends no requests. It may create agents.work_root.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/checks/machine_memory.h"
#include "app/checks/start_check.h"
#include "app/models/device.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// The command that requested the check.
enum class RequestedBy {
  kConfigCheck,  // the run's keys decide which command will start it
  kTrain,        // all roles run in this process; cluster.groups is ignored
  kLaunch,
  kDryRun,  // this machine is not checked, because the plan may be for another one
};

struct RunCheck {
  ModelSetup model;
  DeviceChoice device;  // for `ingot train`
  StartCheck start;
  std::string loss_graph;          // graph of trainer.custom.function; empty = another objective, or a dry run
  std::vector<std::string> notes;  // skipped checks, and settings that may surprise the user
  std::vector<GpuPlan> plans;      // memory of the run's GPUs; empty = the CPU, or each process plans its own
};

// Errors name the key at fault and the file, line, or task, if there is one. With `gpus`, `ingot config check` plans the
// run for machines with these GPUs, and checks nothing that belongs to the machine that runs it, except files and
// programs.
absl::StatusOr<RunCheck> CheckRun(const RunConfig& config, RequestedBy requested_by,
                                  const std::optional<GpuMachine>& gpus = std::nullopt);

}  // namespace ingot::app
