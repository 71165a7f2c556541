// The configuration of a run: every role's options under one schema. This is the only place where YAML keys and fields
// meet; `ingot config explain` prints what is bound here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/options.h"
#include "app/run_dir.h"
#include "base/config.h"
#include "datapool/store.h"
#include "gateway/options.h"
#include "kernels/numerics.h"
#include "rollout/engine_options.h"
#include "scheduler/options.h"
#include "trainer/options.h"
#include "weights/publisher.h"

namespace ingot::app {

struct ModelOptions {
  std::string path;                  // Hugging Face model folder to start from; empty: random weights at `shape`
  std::string tokenizer = "bytes";   // with random weights: bytes; with `path` the folder's tokenizer.json is read
  std::string chat_format = "auto";  // what the folder says (text_parts.h)
  // Random weights at this shape (a qwen3 model); the vocabulary is the tokenizer's.
  int64_t hidden_size = 128;
  int64_t intermediate_size = 384;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  int64_t context_length = 2048;
  double rope_theta = 10000;
};

struct EvalOptions {
  std::string tasks;           // JSONL of held-out tasks; empty: no evaluation
  int64_t every_versions = 0;  // evaluate versions that are multiples of this; 0: only the last
  int32_t avg_n = 1;           // samples per task
};

// What the run promises; checked at its end, and the exit code says whether it held.
struct GoalOptions {
  int64_t first_steps = 0;  // 0: no goal
  double first_reward_below = 1;
  int64_t last_steps = 0;
  double last_reward_above = 0;
};

struct ClusterOptions {
  std::string host = "127.0.0.1";
  int32_t datapool_port = 7401;
  int32_t scheduler_port = 7402;
  int32_t gateway_port = 7403;  // its gRPC service; HTTP is gateway.port
  int32_t rollout_port = 7410;  // of the first engine; engine i listens on rollout_port + i
  int32_t rollout_engines = 1;
  int32_t trainer_ranks = 1;      // processes that train each batch together
  int32_t min_trainer_ranks = 1;  // that the run goes on with when the others keep dying
  int32_t trainer_port = 7404;    // where they meet, with more than one
  double trainer_stop_s = 600;    // that a stopped run's trainer has to end its step and save
  int64_t rank_deadline_s = 30;   // of a rank's silence, after which the group is started again
  int32_t metrics_port = 0;       // first port of the roles' Prometheus endpoints; 0: only the gateway's /metrics
  int32_t max_restarts = 3;       // of a role, or of a rank of the trainer
};

struct WeightsConfig {
  int64_t deadline_ms = 30000;
  int32_t zstd_level = 1;

  weights::PublisherOptions Options() const;
};

struct RunConfig {
  std::string name = "run";
  std::string root = "runs";
  IfExists if_exists = IfExists::kFail;
  uint64_t seed = 1;
  std::string log_level = "info";
  std::string device = "auto";
  kernels::Numerics numerics = kernels::Numerics::kFast;
  int32_t total_threads = 0;    // compute threads of rollout and trainer together; 0: all cores
  int32_t rollout_threads = 0;  // of those, the engine's; 0: half, rounded up
  std::string tasks;            // JSONL of training tasks; empty: supervised training alone
  std::string sft_data;         // JSONL of conversations; empty: no such stage
  std::string dpo_data;         // JSONL of preference pairs; empty: no such stage
  ModelOptions model;
  rollout::EngineOptions rollout;
  gateway::GatewayOptions gateway;
  gateway::HttpServerOptions http;
  datapool::StoreOptions datapool;
  scheduler::SchedulerOptions scheduler;
  trainer::TrainerOptions trainer;
  WeightsConfig weights;
  agents::RunnerOptions agents;
  EvalOptions eval;
  GoalOptions goal;
  ClusterOptions cluster;
};

// Binds every key of `config`.
base::Schema BindSchema(RunConfig& config);

// A configuration with the schema that set it. Load = file, overrides, derived values, validation; the error names the
// key and where it was set.
struct LoadedConfig {
  std::unique_ptr<RunConfig> config;
  base::Schema schema;
};
absl::StatusOr<LoadedConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides);

// For commands and roles that serve agents: INVALID_ARGUMENT if the configuration has no tasks for them.
absl::Status RequireTasks(const RunConfig& config);

// What may be meant and yet cannot do what it says: settings that have no effect, or that work against each other. One
// line each, for whoever starts the run.
std::vector<std::string> Doubts(const RunConfig& config);

// How many evaluations may run at a time: the scheduler's limit, or the versions that an engine retains beside those
// that models are pinned to.
int64_t MostEvaluations(const RunConfig& config);

// The threads of the trainer and of the engine when both run in one process.
struct CoreBudget {
  int total = 1;
  int rollout = 1;
  int trainer = 1;
};
CoreBudget SplitCores(const RunConfig& config);

}  // namespace ingot::app
