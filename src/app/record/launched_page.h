// The page and the loggers of a run whose roles are separate processes. The process that holds the run's folder serves
// them: `ingot launch` on one machine, or on several the agent of the node that drives the run.
#pragma once

#include <memory>
#include <vector>

#include "app/cluster/run_registry.h"
#include "app/record/run_page.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/status.h"
#include "datapool/client.h"
#include "loggers/follower.h"
#include "rollout/client.h"
#include "scheduler/client.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {

// With the clients that page and loggers call. A supervised run does not have them.
struct LaunchedPage {
  std::unique_ptr<datapool::Client> pool;
  std::unique_ptr<scheduler::Client> scheduler;
  std::vector<std::shared_ptr<rollout::Client>> engines;
  std::unique_ptr<loggers::Follower> follower;  // null = the configuration names no logger
  std::unique_ptr<RunPage> page;                // null = not configured, or the page cannot listen. Last: it ends first
};

// Serves the page and starts the loggers, which continue where an earlier start of the run ended. `registry`: null =
// the run is supervised, with only a trainer. This follows the registry, which outlives the page. Errors are of
// RunPage::OfRunning, FollowRun and the registry.
absl::StatusOr<LaunchedPage> ServeLaunchedPage(const LoadedConfig& loaded, const RunDir& dir, RunRegistry* registry,
                                               const std::shared_ptr<const text::Tokenizer>& tokenizer);

}  // namespace ingot::app
