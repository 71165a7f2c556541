// What a run shows while it runs: its page and its loggers. The process that holds the run's folder serves them: the one
// of `ingot train`, `ingot launch` on one machine, or on several the agent of the node that drives the run.
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
  RoleClients clients;                          // that page and loggers call
  std::unique_ptr<loggers::Follower> follower;  // null = the configuration names no logger
  std::unique_ptr<EpisodesEndpoint> episodes;   // null = the run has no gateway, or its file cannot be made
  std::unique_ptr<RunPage> page;                // null = not configured, or the page cannot listen. Last: it ends first
};

// What this process computes: its trainer, if it has one.
std::string OwnWork();

// Serves the page and starts the loggers, which continue where an earlier start of the run ended. Without a pool among
// the clients, `no_pool` says why there is none. `trainer`: as LiveState::trainer. Errors are of RunPage::OfRunning
// and FollowRun.
absl::StatusOr<RunView> ServeRunView(const LoadedConfig& loaded, const RunDir& dir, RoleClients clients,
                                     const std::shared_ptr<const text::Tokenizer>& tokenizer,
                                     const std::string& no_pool = kSupervisedHasNoPool,
                                     std::function<std::string()> trainer = OwnWork);

// The same for a run whose roles are separate processes. `registry`: null = the run is supervised, with only a trainer.
// This follows the registry, which outlives the view; its errors too. `trainer`: as LiveState::trainer; thread safe.
absl::StatusOr<RunView> ServeLaunchedView(const LoadedConfig& loaded, const RunDir& dir, RunRegistry* registry,
                                          const std::shared_ptr<const text::Tokenizer>& tokenizer,
                                          std::function<std::string()> trainer);

// Calls `train`, a training in this process without other roles, with the metrics, page and loggers of a run. Prints the
// link to the page.
absl::Status TrainInView(const LoadedConfig& loaded, const RunDir& dir,
                         const std::shared_ptr<const text::Tokenizer>& tokenizer, const std::string& no_pool,
                         base::Metrics& metrics, const std::function<absl::Status()>& train);

}  // namespace ingot::app
