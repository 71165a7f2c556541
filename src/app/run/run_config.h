// The configuration of a run: every role's options under one schema. YAML keys and fields meet only here and in
// role_schemas.h; `ingot config explain` prints these bindings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/options.h"
#include "app/run/logger_options.h"
#include "app/run/page_options.h"
#include "app/run/run_dir.h"
#include "base/config.h"
#include "base/metrics.h"
#include "datapool/store.h"
#include "gateway/options.h"
#include "http/options.h"
#include "kernels/numerics.h"
#include "model/config.h"
#include "reward/options.h"
#include "rollout/engine_options.h"
#include "sandbox/substrate.h"
#include "scheduler/options.h"
#include "trainer/options.h"
#include "weights/publisher.h"
#include "weights/stores/s3_options.h"

namespace ingot::app {

struct ModelOptions {
  std::string path;  // Hugging Face model folder to start from; empty = random weights at the shape below
  std::string tokenizer = "bytes";   // of random weights: bytes; with `path` it is the folder's tokenizer.json
  std::string chat_format = "auto";  // text_parts.h; auto = the folder decides
  std::string chat_template;         // Jinja file instead of the folder's templates; empty = the folder's own
  // Shape of random weights (a qwen3 model); the vocabulary is the tokenizer's.
  int64_t hidden_size = 128;
  int64_t intermediate_size = 384;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  int64_t context_length = 2048;
  double rope_theta = 10000;
  // Adapters instead of all weights (trainer.lora.*); rank 0 = all weights are trained; alpha 0 = the value in
  // lora_init's folder, or 32.
  model::LoraConfig lora = {
      .rank = 0, .alpha = 0, .targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  double lora_dropout = 0;
  std::string lora_init = "default";  // default: A uniform, B zero; or a PEFT folder
};

// The files of a key that takes one or several; `first` empty = none.
inline std::vector<std::string> AllFiles(const std::string& first, const std::vector<std::string>& more) {
  std::vector<std::string> files;
  if (first.empty()) return files;
  files.push_back(first);
  files.insert(files.end(), more.begin(), more.end());
  return files;
}

struct EvalOptions {
  std::string tasks;                             // JSONL of held-out tasks; empty = no evaluation, or several `sets`
  std::map<std::string, std::string> sets = {};  // several files by the name of their set; `tasks` is empty then
  int64_t every_versions = 0;                    // evaluate versions that are multiples of this; 0 = only the last
  bool at_start = false;                         // evaluate version 0 too, the weights before the first step
  int32_t avg_n = 1;                             // samples per task
  double success = 1;                            // a sample succeeds with this return or more: for pass@k
  bool keep_best = false;                        // keep the model of the version with the best reward (best_model.h)

  std::vector<std::string> more_tasks = {};  // files after `tasks`, only of `ingot collect`

  bool has_tasks() const { return !tasks.empty() || !sets.empty(); }
  // All files by the name of their set; "" = the files of `tasks`.
  std::map<std::string, std::vector<std::string>> Files() const {
    if (!tasks.empty()) return {{"", AllFiles(tasks, more_tasks)}};
    std::map<std::string, std::vector<std::string>> files;
    for (const auto& [name, path] : sets) files[name] = {path};
    return files;
  }
  // Whether the run holds weights back for an evaluation while newer ones are live.
  bool of_earlier_versions() const { return at_start || every_versions > 0; }
};

// The goal of the run: bounds of its rewards. It is checked at the run's end and decides the exit code.
struct GoalOptions {
  int64_t first_steps = 0;  // 0 = no goal
  double first_reward_below = 1;
  int64_t last_steps = 0;
  double last_reward_above = 0;
  static constexpr double kNoBound = -1e9;  // below every reward
  double eval_above = kNoBound;             // bound of the last version's evaluation (eval.tasks); kNoBound = no goal

  bool of_steps() const { return first_steps > 0 || last_steps > 0; }
  bool of_evaluation() const { return eval_above != kNoBound; }
};

// Where the roles of a run find each other (src/registry).
enum class RegistryKind { kLocal, kEtcd };
struct RegistryConfig {
  RegistryKind kind = RegistryKind::kLocal;  // local = the folder RUN/registry, for the roles of one machine
  std::vector<std::string> endpoints;        // HOST:PORT of etcd's members
  std::string user, password_file;           // of etcd; both empty = without
  std::string ca, certificate, key;          // PEM files; ca empty = plain text
  double ttl_s = 10;                         // seconds of silence after which a process counts as gone
};

// Nodes that run the same roles.
struct NodeGroup {
  std::string name;
  int32_t nodes = 1;
  std::vector<std::string> roles;
  int32_t engines = 1;                                // on each node, if rollout is among the roles
  std::vector<std::string> slurm;                     // options of sbatch for these nodes
  std::map<std::string, std::string> resources = {};  // of one node's pod, as Kubernetes counts them: cpu, memory, ...
};

// Of a run's objects (app/cluster/launchers/kubernetes.h). Empty = none, unless it is said otherwise.
struct KubernetesOptions {
  std::string name_space = "default";
  std::string image;                       // of Ingot
  std::string volume_claim;                // a PersistentVolumeClaim that all pods may write, for run.root
  std::string token_secret;                // Secret with the key `token`, the run's
  std::string tls_secret;                  // Secret with tls.crt, tls.key and ca.crt, for rpcs between roles
  std::string pull_secret;                 // Secret for the image's registry
  std::map<std::string, std::string> env;  // VARIABLE: SECRET/KEY, in every pod
  std::string queue;                       // of Kueue, which then admits the run
  bool jobset = false;                     // wrap the trainer's Job in a JobSet
};

// Who starts the nodes of a run.
enum class LauncherKind { kLocal, kSlurm, kKubernetes };

struct ClusterOptions {
  std::string host = "127.0.0.1";
  // Ports of the roles' gRPC services; 0 = a free one, which the others learn from the registry.
  int32_t datapool_port = 0;
  int32_t scheduler_port = 0;
  int32_t gateway_port = 0;  // HTTP is http.port
  int32_t rollout_port = 0;  // of the first engine; engine i listens on rollout_port + i
  int32_t rewards_port = 0;
  int32_t rollout_engines = 1;
  int32_t gateways = 1;
  bool rewards_role = false;      // the reward stage is a separate process; false = it is in the scheduler's
  int32_t trainer_ranks = 1;      // processes that train each batch together
  int32_t min_trainer_ranks = 1;  // least number of ranks with which the run continues after others were lost
  // The ranks' meeting place, if there are several: where rank 0 runs. Empty = `host`; 0 = a free port.
  std::string trainer_host;
  int32_t trainer_port = 0;
  double trainer_stop_s = 600;   // grace of a stopped run's trainer to end its step and save
  int64_t rank_deadline_s = 30;  // of a rank's silence, after which the group is restarted
  double takeover_s = 30;        // of a dead node's absence, after which its roles move; 0 = they do not
  int32_t takeover_engines = 0;  // of dead nodes, that a node with engines runs in addition to its own
  int32_t datapools = 1;         // processes that serve the pool; more than 1 only over PostgreSQL
  double drain_s = 30;           // grace of an engine that leaves, for its calls to end
  int32_t max_restarts = 3;      // of a role, or of a rank of the trainer
  // A file with the token that every rpc carries, for roles and commands started by hand. Empty = `ingot launch` makes
  // one for each start.
  std::string token_file;
  std::string tls_certificate, tls_key;  // PEM files; empty = plain text
  std::string tls_ca;                    // PEM file that roles verify each other against; empty = tls_certificate
  bool mutual_tls = false;               // callers show the certificate too, and roles reject those without one
  std::string tls_name;                  // name in every role's certificate; empty = cluster.host of each
  bool allow_plaintext = false;          // `host` may be an address that other machines reach, without TLS
  RegistryConfig registry;
  LauncherKind launcher = LauncherKind::kLocal;  // local = every role on this machine
  std::vector<NodeGroup> groups;                 // of a run on several nodes; empty = one node
  std::vector<std::string> slurm;                // options of sbatch for all nodes
  KubernetesOptions kubernetes;
};

// Prometheus endpoints: socket files in the run's folder and, if there is a port, TCP for clients with the admin key.
struct MetricsConfig {
  std::string host = "127.0.0.1";
  int32_t port = 0;                                       // of the first process; 0 = none
  int32_t max_labels = base::Metrics::kDefaultMaxLabels;  // values of a label
};

// How new weights reach an engine in another process from the trainer.
enum class WeightTransport { kGrpc, kDirectory, kS3, kBroadcast };

struct WeightTransportConfig {
  WeightTransport transport = WeightTransport::kGrpc;
  std::map<std::string, std::string> engines;  // exceptions: rollout-1: s3
  std::string directory;                       // of transport directory; empty = RUN/weights
  weights::S3Options s3;
  std::string s3_credentials;  // a file; empty = the environment's AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
  int32_t shards = 0;          // objects of one version; 0 = one for each rank of the trainer
  int32_t anchor_every = 16;   // versions between two full copies
  int64_t poll_ms = 200;       // between two looks at what is live, or at an acknowledgement
  double silence_s = 10;       // without a beat, after which an engine counts as gone
};

// INVALID_ARGUMENT: `engines` names no known transport for the engine.
absl::StatusOr<WeightTransport> TransportOf(const WeightTransportConfig& options, const std::string& engine);

struct WeightsConfig {
  int64_t deadline_ms = 30000;
  int32_t zstd_level = 1;
  WeightTransportConfig ways;

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
  int32_t total_threads = 0;         // compute threads of rollout and trainer together; 0 = all cores
  int32_t rollout_threads = 0;       // the engine's share of them; 0 = half, rounded up
  std::string tasks;                 // training tasks, a file or a folder; empty = only supervised training
  std::string task_format = "auto";  // of all task files: "jsonl", "harbor" (dataset/harbor.h), or "auto" by the path
  std::string sft_data;              // JSONL of conversations; empty = no such stage
  std::string dpo_data;              // JSONL of preference pairs; empty = no such stage
  // More files or folders of data.tasks, read after `tasks`.
  std::vector<std::string> more_tasks;
  ModelOptions model;
  rollout::EngineOptions rollout{.halt = {.repetition = "auto"}};
  gateway::GatewayOptions gateway;
  http::Options http;
  PageOptions page;
  LoggerOptions loggers;
  datapool::StoreOptions datapool;
  scheduler::SchedulerOptions scheduler;
  std::map<std::string, std::string> task_domains;  // scheduler.sampling.domains as numbers in text
  trainer::TrainerOptions trainer;
  WeightsConfig weights;
  agents::RunnerOptions agents;
  reward::RewardOptions rewards;
  // sandbox.require as written: "any" = no isolation level is named, and verifiers that run the model's programs need
  // more than the weakest; otherwise sandbox.require itself.
  std::string sandbox_require = "any";
  sandbox::SubstrateOptions sandbox;  // work_root, hidden and programs are filled in by agents_substrate.cc
  EvalOptions eval;
  GoalOptions goal;
  ClusterOptions cluster;
  MetricsConfig metrics;

  std::vector<std::string> task_files() const { return AllFiles(tasks, more_tasks); }  // of data.tasks, in their order
  // A stage judges groups: the reward is more than the outcome, or the returns of roles need the trees of a group.
  bool has_reward_stage() const { return !rewards.outcome_alone() || trainer.by_role(); }
};

// The schema with every key bound to its field of `config`.
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
