// Loads a run's configuration: every role's options in one schema, which `ingot config explain` prints. Each key is
// declared in the Bind function for the struct that has its field, next to that struct.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/options.h"
#include "app/run/cluster_options.h"
#include "app/run/eval_options.h"
#include "app/run/learn_options.h"
#include "app/run/model_options.h"
#include "app/run/record_options.h"
#include "app/run/run_dir.h"
#include "app/run/weights_options.h"
#include "base/config.h"
#include "datapool/store.h"
#include "engines/external/external_options.h"
#include "gateway/options.h"
#include "http/options.h"
#include "kernels/numerics.h"
#include "reward/options.h"
#include "rollout/engine/engine_options.h"
#include "sandbox/substrate.h"
#include "scheduler/options.h"
#include "trainer/options.h"

namespace ingot::app {

struct RunConfig {
  std::string name = "run";
  std::string root = "runs";
  IfExists if_exists = IfExists::kFail;
  uint64_t seed = 1;
  std::string log_level = "info";
  std::string device = "auto";
  std::string python;  // default for reward::PythonOptions; empty = reward::UserPython
  kernels::Numerics numerics = kernels::Numerics::kFast;
  int32_t total_threads = 0;
  int32_t rollout_threads = 0;
  bool lend_threads = false;
  std::string tasks;
  std::string task_format = "auto";  // "harbor" is described in dataset/harbor.h
  std::string sft_data;
  std::string dpo_data;
  std::vector<std::string> more_tasks;  // more files or folders in data.tasks, read after `tasks`
  ModelOptions model;
  rollout::EngineOptions rollout{.halt = {.repetition = "auto"}};
  engines::EngineKind engine = engines::EngineKind::kIngot;
  engines::ExternalOptions external;  // for other kinds of engines
  gateway::GatewayOptions gateway;
  http::Options http;
  PageOptions page;
  LoggerOptions loggers;
  datapool::StoreOptions datapool;
  scheduler::SchedulerOptions scheduler;
  trainer::TrainerOptions trainer;
  WeightsConfig weights;
  agents::RunnerOptions agents;
  reward::RewardOptions rewards;
  sandbox::SubstrateOptions sandbox;  // agents_substrate.cc sets work_root, hidden, and programs
  EvalOptions eval;
  GoalOptions goal;
  LearnOptions learn;
  ClusterOptions cluster;
  MetricsConfig metrics;

  // Returns all files in data.tasks in order.
  std::vector<std::string> task_files() const { return AllFiles(tasks, more_tasks); }
  // Returns whether a reward stage scores groups. This is true if the reward is more than the outcome, or if per-role
  // returns need a group's trees.
  bool has_external_engine() const { return engine != engines::EngineKind::kIngot; }
  bool has_reward_stage() const { return !rewards.outcome_alone() || trainer.by_role(); }
};

// Declares the keys for the run itself and all roles.
void Bind(base::Schema& schema, RunConfig& config);
base::Schema BindSchema(RunConfig& config);

// Returns the absolute folder of a configuration file, which values in it and in overrides can use as ${config_dir}.
std::string ConfigDir(const std::string& path);

// A configuration and the schema that set it. LoadRunConfig reads the file, applies the overrides, derives dependent
// values, and validates. Errors name the key and where it was set.
struct LoadedConfig {
  std::unique_ptr<RunConfig> config;
  base::Schema schema;
};
absl::StatusOr<LoadedConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides);

// Returns INVALID_ARGUMENT if the configuration has no training tasks. Used by commands and roles that serve agents.
absl::Status RequireTasks(const RunConfig& config);

// Returns the maximum number of concurrent evaluations: the smaller of the scheduler's limit and the number of versions
// that an engine can retain in addition to the pinned ones.
int64_t MaxEvaluations(const RunConfig& config);

// The trainer's and the engine's own compute threads. Each may also use the other's while that waits
// (compute_members.h).
struct CoreBudget {
  int total = 1;
  int rollout = 1;
  int trainer = 1;
};
CoreBudget SplitCores(const RunConfig& config);

}  // namespace ingot::app
