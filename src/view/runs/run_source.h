// Defines what a page can access of its run: the folder, the pool, facts from the configuration, and, while the run is
// live, its roles. Supplied by the page's server (app/record/run_page.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/gateway.pb.h"
#include "proto/rollout.pb.h"
#include "proto/scheduler.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::view {

// The current status of the run's roles.
struct LiveState {
  std::optional<absl::StatusOr<v1::SchedulerStatusResponse>> scheduler;                   // nullopt = the run has none
  std::vector<std::pair<std::string, absl::StatusOr<v1::EngineStatusResponse>>> engines;  // by name
  v1::GatewayStatusResponse gateways = {};  // the `uncalled*` fields, merged over all gateways that respond
  std::string trainer = {};                 // its current work (base/work.h); empty = none
};

// Constants from a run's configuration.
struct RunFacts {
  bool supervised = false;  // has no agents, and therefore no engines, scheduler, or pool
  int64_t total_steps = 0, groups_per_step = 1, group_size = 1, max_staleness = 0;
  int64_t budget = 1, window = 1;  // B and W in the fourth law of docs/internals/architecture.md; W > B = no window
  int64_t concurrency = 0;         // concurrent agents; 0 = agents run elsewhere
  std::vector<std::string> scaffolds = {};  // recipe names
};

struct RunSource {
  std::string name;
  std::string folder;  // RUN
  RunFacts facts;
  // Returns the pool's current or very recent state. It may be shared with the run. Called on any thread. Returns
  // NOT_FOUND with the reason if the run has no pool. Other errors explain why it cannot be read.
  std::function<absl::StatusOr<std::shared_ptr<datapool::Client>>()> pool;
  std::function<LiveState()> live;  // null = the page uses only the run's files
  // Ends the episode if it has made no call, or all such episodes if the id is empty. `key` is the admin key that the
  // user entered. Returns the number of ended episodes. Called on any thread; blocks. Null = the run has no admin key,
  // so the page cannot end episodes.
  std::function<absl::StatusOr<int64_t>(const std::string& episode_id, const std::string& key)> end_uncalled = nullptr;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  // Returns a group's advantages as used by the trainer, indexed by [sample][turn]. Null or empty = they depend on the
  // whole batch.
  std::function<std::vector<std::vector<double>>(const v1::Group&)> advantages;
  // Returns why the name, facts, and tokenizer are from earlier settings, or "" if they are current. Null = they are
  // always current.
  std::function<std::string()> outdated = nullptr;
};

}  // namespace ingot::view
