// Serves a running run's web page and runs its loggers, in the process that holds the run's folder: `ingot train`,
// `ingot launch` on one machine, or, for a run on several machines, the agent on the node that drives it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "app/cluster/role_clients.h"
#include "app/cluster/run_registry.h"
#include "app/record/episodes_endpoint.h"
#include "app/record/run_page.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/metrics.h"
#include "base/status.h"
#include "loggers/follower.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {

struct RunView {
  RoleClients clients;                          // clients that the page and loggers call
  std::unique_ptr<loggers::Follower> follower;  // null = the configuration names no logger
  std::unique_ptr<EpisodesEndpoint> episodes;   // null = no gateway, or the socket file cannot be created
  std::unique_ptr<RunPage> page;                // null = not configured or cannot listen; last, so ends first
};

// Describes this process's current work, which is the trainer's if this process has one.
std::string OwnWork();

// Serves the page and starts the loggers, which continue where they stopped when the run last ended. If the clients do
// not include a pool, `no_pool` is the reason. `trainer` is as in LiveState. Returns the errors of RunPage::OfRunning
// and FollowRun.
absl::StatusOr<RunView> ServeRunView(const LoadedConfig& loaded, const RunDir& dir, RoleClients clients,
                                     const std::shared_ptr<const text::Tokenizer>& tokenizer,
                                     const std::string& no_pool = kSupervisedHasNoPool,
                                     std::function<std::string()> trainer = OwnWork);

// Same as above, but for a run whose roles are separate processes. Follows `registry`, which outlives the view, and
// also returns its errors. A null registry means a supervised run, which has only a trainer. `trainer` is as in
// LiveState and must be thread safe.
absl::StatusOr<RunView> ServeLaunchedView(const LoadedConfig& loaded, const RunDir& dir, RunRegistry* registry,
                                          const std::shared_ptr<const text::Tokenizer>& tokenizer,
                                          std::function<std::string()> trainer);

// Calls `train`. Until it returns, serves the run's metrics and page and runs its loggers. `train` runs in this process
// without other roles. Prints the link to the page.
absl::Status TrainInView(const LoadedConfig& loaded, const RunDir& dir,
                         const std::shared_ptr<const text::Tokenizer>& tokenizer, const std::string& no_pool,
                         base::Metrics& metrics, const std::function<absl::Status()>& train);

}  // namespace ingot::app
