// A run as its page reads it: its folder, its pool, the facts of its configuration and, while it is live, its roles.
// The server of the page supplies it (app/record/run_page.h).
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

// The current answers of the run's roles.
struct LiveState {
  std::optional<absl::StatusOr<v1::SchedulerStatusResponse>> scheduler;                   // nullopt = the run has none
  std::vector<std::pair<std::string, absl::StatusOr<v1::EngineStatusResponse>>> engines;  // by name
  v1::GatewayStatusResponse gateways = {};  // the fields `uncalled*` of all gateways that answer, as if they were one
  std::string trainer = {};                 // what it computes (base/work.h); empty = nothing now
};

// Constants of a run's configuration.
struct RunFacts {
  bool supervised = false;  // without agents: no engines, no scheduler and no pool
  int64_t total_steps = 0, groups_per_step = 1, group_size = 1, max_staleness = 0;
  int64_t budget = 1, window = 1;           // B and W of docs/internals/architecture.md's fourth law; W > B = no window
  int64_t concurrency = 0;                  // agents at a time; 0 = agents come from elsewhere
  std::vector<std::string> scaffolds = {};  // names of the recipes
};

struct RunSource {
  std::string name;
  std::string folder;  // RUN
  RunFacts facts;
  // The pool as it is now or was a moment ago; it may be shared with the run. Called on any thread. NOT_FOUND: the run
  // has no pool, and the message says why; other errors say why it cannot be read.
  std::function<absl::StatusOr<std::shared_ptr<datapool::Client>>()> pool;
  std::function<LiveState()> live;  // null = the page uses only the run's files
  // Ends the episode, or all with an empty id, if it has made no call. `key`: what the browser's user entered as the
  // run's admin key. Returns how many ended. Blocks, on any thread. Null = the page cannot: the run has no such key.
  std::function<absl::StatusOr<int64_t>(const std::string& episode_id, const std::string& key)> end_uncalled = nullptr;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  // The advantages of a group as the trainer uses them, [sample][turn]; null or empty = they depend on the whole batch.
  std::function<std::vector<std::vector<double>>(const v1::Group&)> advantages;
  // Says why name, facts and tokenizer come from earlier settings; empty = they are the run's. Null = they always are.
  std::function<std::string()> outdated = nullptr;
};

}  // namespace ingot::view
