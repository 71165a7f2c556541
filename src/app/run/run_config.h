// The configuration of a run: every role's options under one schema, which `ingot config explain` prints. A key is
// declared next to the struct that has its field, in the struct's Bind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/options.h"
#include "app/run/cluster_options.h"
#include "app/run/eval_options.h"
#include "app/run/model_options.h"
#include "app/run/record_options.h"
#include "app/run/run_dir.h"
#include "app/run/weights_options.h"
#include "base/config.h"
#include "datapool/store.h"
#include "gateway/options.h"
#include "http/options.h"
#include "kernels/numerics.h"
#include "reward/options.h"
#include "rollout/engine_options.h"
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
  std::string python;  // of reward::PythonOptions without an interpreter; empty = reward::UserPython
  kernels::Numerics numerics = kernels::Numerics::kFast;
  int32_t total_threads = 0;
  int32_t rollout_threads = 0;
  std::string tasks;
  std::string task_format = "auto";  // harbor: dataset/harbor.h
  std::string sft_data;
  std::string dpo_data;
  std::vector<std::string> more_tasks;  // files or folders of data.tasks, read after `tasks`
  ModelOptions model;
  rollout::EngineOptions rollout{.halt = {.repetition = "auto"}};
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
  sandbox::SubstrateOptions sandbox;  // work_root, hidden and programs are filled in by agents_substrate.cc
  EvalOptions eval;
  GoalOptions goal;
  ClusterOptions cluster;
  MetricsConfig metrics;

  std::vector<std::string> task_files() const { return AllFiles(tasks, more_tasks); }  // of data.tasks, in their order
  // A stage judges groups: the reward is more than the outcome, or the returns of roles need the trees of a group.
  bool has_reward_stage() const { return !rewards.outcome_alone() || trainer.by_role(); }
};

// The keys of every role and of the run itself.
void Bind(base::Schema& schema, RunConfig& config);
base::Schema BindSchema(RunConfig& config);

// A configuration with the schema that set it. LoadRunConfig reads the file, applies the overrides, derives dependent
// values and validates. The error names the key and where it was set.
struct LoadedConfig {
  std::unique_ptr<RunConfig> config;
  base::Schema schema;
};
absl::StatusOr<LoadedConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides);

// INVALID_ARGUMENT: the configuration has no training tasks. For commands and roles that serve agents.
absl::Status RequireTasks(const RunConfig& config);

// The greatest number of evaluations at a time: the scheduler's limit, or the versions that an engine retains in
// addition to pinned ones.
int64_t MostEvaluations(const RunConfig& config);

// The compute threads of trainer and engine when both run in one process.
struct CoreBudget {
  int total = 1;
  int rollout = 1;
  int trainer = 1;
};
CoreBudget SplitCores(const RunConfig& config);

}  // namespace ingot::app
