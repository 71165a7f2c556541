#include "app/run/run_config.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "app/run/named_models.h"
#include "app/run/role_schemas.h"
#include "dataset/harbor.h"
#include "dataset/jsonl.h"
#include "trainer/presets.h"

namespace ingot::app {
namespace {

// The key that `data: FILE` stands for: the file's first line is a preference pair or a conversation.
absl::StatusOr<std::string> SupervisedKeyOf(const std::string& path) {
  std::string key;
  const absl::Status read = dataset::ReadJsonl(path, {}, [&](int64_t, std::string_view, const base::json::value& line) {
    key = base::Find(line, "chosen") != nullptr ? "data.dpo" : "data.sft";
    return absl::CancelledError("the first line is enough");
  });
  if (!key.empty()) return key;
  return read.ok() ? absl::InvalidArgumentError(path + " is empty") : read;
}

void BindRun(base::Schema& schema, RunConfig& config) {
  schema.Field("run.name", &config.name, "names the run; its folder is run.root/run.name");
  schema.Field("run.root", &config.root, "folder that holds the runs");
  schema.Choice("run.if_exists", &config.if_exists, {"fail", "replace", "resume"},
                "what to do if the run exists: fail, replace it, or resume it");
  schema.Field("run.seed", &config.seed, "root of every random stream: weights, task order, sampling, shuffling");
  schema.Choice("run.log_level", &config.log_level, {"trace", "debug", "info", "warn", "error"},
                "least level in the log file; warnings also go to the terminal");
  schema.Choice("device", &config.device, {"auto", "cpu", "cuda"}, "where to compute; auto: CUDA if there is a device");
  schema.Choice(
      "numerics", &config.numerics, {"fast", "exact"},
      "agreement of the trainer's log-probs with rollout's: fast, to rounding (fp32: 1e-5); exact, to the bit, "
      "in merged trees too, on the CPU, fp32 and bf16");
  schema.Field("compute.threads", &config.total_threads,
               "compute threads of rollout and trainer together; 0: all cores");
  schema.Field("compute.rollout_threads", &config.rollout_threads,
               "the engine's share of them when both run in one process; 0: half, rounded up");
  schema.Shorthand("data", SupervisedKeyOf);
  schema.Field(
      "data.tasks", &config.tasks, &config.more_tasks,
      "JSONL of training tasks, one object per line, or a folder of Harbor tasks, or a list of these, read in order; "
      "empty: only supervised training, without agents");
  schema.Choice("data.format", &config.task_format, {"auto", "jsonl", "harbor"},
                "of data.tasks and eval.tasks; auto: a folder holds Harbor's tasks, a file JSON lines");
  schema.Field("data.sft", &config.sft_data, "JSONL of conversations for the supervised stage; empty: none");
  schema.Field("data.dpo", &config.dpo_data,
               "JSONL of preference pairs (prompt, chosen, rejected) for the stage after it; empty: none");
}

void BindModel(base::Schema& schema, ModelOptions& model) {
  schema.Field("model.path", &model.path,
               "Hugging Face model folder to start from; empty: random weights at the shape below");
  schema.Choice("model.tokenizer", &model.tokenizer, {"bytes"},
                "tokenizer of a model with random weights; with model.path the folder's tokenizer.json is read");
  schema.Field("model.chat_format", &model.chat_format,
               "how conversations become prompts and output becomes tool calls: hermes, compact, template (the model's "
               "own chat template), template:NAME (with the output format NAME), or auto: what the folder's ingot.json "
               "says, otherwise its template, otherwise hermes");
  schema.Field(
      "model.chat_template", &model.chat_template,
      "Jinja file whose template replaces the templates of model.path's folder, and is saved with every checkpoint; "
      "empty: the folder's own");
  schema.Field("model.hidden_size", &model.hidden_size, "width of the residual stream");
  schema.Field("model.intermediate_size", &model.intermediate_size, "width of the SwiGLU");
  schema.Field("model.layers", &model.layers, "transformer blocks");
  schema.Field("model.heads", &model.heads, "query heads");
  schema.Field("model.kv_heads", &model.kv_heads, "key and value heads; divides model.heads");
  schema.Field("model.head_dim", &model.head_dim, "size of a head; even");
  schema.Field("model.context_length", &model.context_length, "tokens of a prompt and its answer together, at most");
  schema.Field("model.rope_theta", &model.rope_theta, "base of the rotary embedding's frequencies");
  schema.Field("trainer.lora.rank", &model.lora.rank,
               "rank of low-rank adapters; only they are trained; 0: all weights are trained");
  schema.Field(
      "trainer.lora.alpha", &model.lora.alpha,
      "the adapters' result is multiplied by alpha / rank; 0: the value in trainer.lora.init's folder, otherwise 32");
  schema.Field(
      "trainer.lora.targets", &model.lora.targets,
      "products of every layer that get an adapter, by the last word of their name; of routed experts experts.WORD; "
      "the default, where a family lacks one of these: all of its products except those of routed experts");
  schema.Field("trainer.lora.dropout", &model.lora_dropout,
               "must be 0: with dropout the trained policy would not be the sampled one");
  schema.Field("trainer.lora.init", &model.lora_init,
               "default: A uniform, B zero, so the run starts from the base; or a PEFT folder to continue from");
}

void BindEval(base::Schema& schema, RunConfig& config) {
  schema.Field(
      "eval.tasks", &config.eval.tasks, &config.eval.sets,
      "JSONL of held-out tasks, never trained on, or several by name, {aime: a.jsonl, code: b.jsonl}; empty: no "
      "evaluation");
  schema.Field("eval.every_versions", &config.eval.every_versions,
               "evaluate versions that are multiples of this, on pinned weights; 0: only the last");
  schema.Field("eval.at_start", &config.eval.at_start,
               "evaluate the weights before the first step too, on pinned weights (a multiple of every_versions)");
  schema.Field("eval.avg_n", &config.eval.avg_n, "samples per held-out task; their mean is reported");
  schema.Field("eval.keep_best", &config.eval.keep_best,
               "keep the model of the version with the best held-out reward so far, as RUN/checkpoints/best");
  schema.Field("eval.success", &config.eval.success,
               "a sample of this reward or more is a success, for eval/pass@k; training does not use it");
  schema.Field("eval.max_new_tokens", &config.gateway.eval_max_new_tokens,
               "greatest number of tokens sampled per call of an evaluation; 0: gateway.max_new_tokens");
  schema.Field("goal.first_steps", &config.goal.first_steps, "number of first steps in the goal; 0: none");
  schema.Field("goal.first_reward_below", &config.goal.first_reward_below, "their mean reward must be below this");
  schema.Field("goal.last_steps", &config.goal.last_steps, "number of last steps in the goal; 0: none");
  schema.Field("goal.eval_above", &config.goal.eval_above,
               "the held-out reward of the last version must be above this; -1e9: no goal");
  schema.Field("goal.last_reward_above", &config.goal.last_reward_above,
               "their mean reward must be above this, or the command exits with 1");
}

void BindMetrics(base::Schema& schema, MetricsConfig& metrics) {
  schema.Field("metrics.host", &metrics.host, "address of metrics.port");
  schema.Field("metrics.port", &metrics.port,
               "TCP port of /metrics, for clients with the key in gateway.admin_key_file; `ingot launch`: the first "
               "role's, the others follow; 0: only the socket files RUN/sockets/metrics-ROLE.sock, for this user only");
  schema.Field("metrics.max_labels", &metrics.max_labels, "most values of a metric's label; more are counted as other");
}

// Sets the fields that follow from other keys, once, so that they cannot differ between roles.
// INVALID_ARGUMENT names the domain whose weight is not a number.
absl::Status DeriveDomains(RunConfig& config) {
  for (const auto& [domain, text] : config.task_domains) {
    double weight = 0;
    if (!absl::SimpleAtod(text, &weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("scheduler.sampling.domains: the weight of '", domain, "' is '", text, "': a number"));
    }
    config.scheduler.sampling.domains[domain] = weight;
  }
  return absl::OkStatus();
}

void Derive(RunConfig& config) {
  config.sandbox.require = config.sandbox_require == "any" ? "none" : config.sandbox_require;
  config.trainer.groups_per_step = config.scheduler.groups_per_step;
  config.trainer.group_size = config.scheduler.group_size;
  config.scheduler.branching = {.at = config.agents.branching.at, .width = config.agents.branching.width};
  config.trainer.total_steps = config.scheduler.total_steps;
  config.trainer.seed = config.seed;
  config.trainer.numerics = config.numerics;
  // Only the CPU kernels have exact numerics.
  if (config.numerics == kernels::Numerics::kExact && config.device == "auto") config.device = "cpu";
  config.scheduler.seed = config.seed;
  config.gateway.seed = config.seed;
  config.scheduler.keep_checkpoints = config.trainer.keep_checkpoints;
  // People try their outside agents against a run that waits for them.
  if (config.agents.recipes.empty()) config.scheduler.give_up_unstarted = 0;
  // Slots fail side by side: each has failed a few times before the run is given up.
  if (int32_t& most = config.scheduler.give_up_unstarted; most > 0)
    most = std::max(most, 3 * config.agents.concurrency);
  config.scheduler.final_eval = config.eval.has_tasks();
  const CoreBudget cores = SplitCores(config);
  config.rollout.threads = cores.rollout;
  config.trainer.threads = std::max(1, cores.trainer / std::max(1, config.cluster.trainer_ranks));
  config.datapool.path = config.root + "/" + config.name + "/pool";
  if (config.datapool.postgres.name.empty()) config.datapool.postgres.name = config.name;
  config.datapool.postgres.replace = config.if_exists == IfExists::kReplace;
}

absl::Status CheckModel(const ModelOptions& model) {
  if (model.hidden_size < 1 || model.intermediate_size < 1 || model.layers < 1 || model.heads < 1 ||
      model.kv_heads < 1 || model.head_dim < 2 || model.context_length < 1) {
    return absl::InvalidArgumentError("model: every size must be at least 1 (model.head_dim 2)");
  }
  if (model.heads % model.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.kv_heads ", model.kv_heads, " does not divide model.heads ", model.heads));
  }
  if (!model.chat_template.empty() && model.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model.chat_template is ", model.chat_template,
                                                   ", but model.path is not set: a template needs the tokenizer of a "
                                                   "model folder; name one, or leave model.chat_template out"));
  }
  if (model.lora_dropout != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("trainer.lora.dropout is ", model.lora_dropout,
                     ": it must be 0, because with dropout the trained policy would not be the policy that sampled"));
  }
  if (model.lora.rank < 0) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.lora.rank is ", model.lora.rank, "; 0 trains all weights"));
  }
  if (model.lora.alpha < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("trainer.lora.alpha is ", model.lora.alpha,
                     ": it must be above 0, or 0 for the adapter's own value, otherwise 32"));
  }
  if (model.lora_init != "default" && (model.lora.rank == 0 || model.path.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trainer.lora.init is ", model.lora_init, ", and ",
        model.lora.rank == 0 ? "trainer.lora.rank is 0, which trains all weights: set it to the adapter's rank"
                             : "model.path is not set: an adapter needs the folder of its base",
        ", or leave trainer.lora.init out"));
  }
  return absl::OkStatus();
}

// A run with only supervised stages needs at least one stage with steps.
absl::Status CheckStages(const RunConfig& config) {
  const auto none = [](const std::string& data, const trainer::SftOptions& stage) {
    return data.empty() || (stage.epochs == 0 && stage.max_steps == 0);
  };
  if (!config.tasks.empty() || !none(config.sft_data, config.trainer.sft) ||
      !none(config.dpo_data, config.trainer.dpo)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "there is nothing to train: epochs and max_steps are 0 for every stage whose data is given (sft, dpo), and "
      "data.tasks names no file of training tasks");
}

// Masks leave tokens out of the policy loss, and supervised stages do not have one.
absl::Status CheckNoMasks(const trainer::TrainerOptions& options) {
  if (!options.off_policy_mask.on() && options.truncated == "train") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "trainer.mask_token_ratio_*, trainer.mask_sequence_ratio_*, trainer.opsm_delta and trainer.truncated mask "
      "sampled tokens, and without data.tasks nothing is sampled: remove these keys, or name training tasks");
}

absl::Status CheckRoles(const RunConfig& config) {
  if (config.gateway.eval_max_new_tokens < 0) {  // the gateway does not know the key's name
    return absl::InvalidArgumentError(absl::StrCat("eval.max_new_tokens is ", config.gateway.eval_max_new_tokens,
                                                   ": it must be above 0, or 0 for gateway.max_new_tokens"));
  }
  INGOT_RETURN_IF_ERROR(CheckModel(config.model));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.rollout.Validate(), "rollout"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.gateway.Validate(), "gateway"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.http.Validate(), "http"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.datapool.Validate(), "datapool"));
  if (config.cluster.datapools > 1 && config.datapool.backend != "postgres") {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.datapools is ", config.cluster.datapools, ", and datapool.backend is ", config.datapool.backend,
        ", which one process holds: set it to postgres, or cluster.datapools to 1"));
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(config.scheduler.Validate(), "scheduler"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.trainer.Validate(), "trainer"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.weights.Options().Validate(), "weights"));
  INGOT_RETURN_IF_ERROR(CheckWeightTransport(config.weights.ways, config.cluster.rollout_engines));
  if (config.tasks.empty()) return CheckNoMasks(config.trainer);
  INGOT_RETURN_IF_ERROR(config.sandbox.Validate());
  INGOT_RETURN_IF_ERROR(config.rewards.Validate());
  INGOT_RETURN_IF_ERROR(CheckAskedModels(config.rewards, config.gateway));
  if (config.cluster.rewards_role && !config.has_reward_stage()) {
    return absl::InvalidArgumentError(
        "cluster.rewards_role is true, but the reward is only the outcome, which needs no stage: give rewards.terms, "
        "or "
        "set it to false");
  }
  if (config.trainer.by_terms() && config.rewards.outcome_alone()) {
    return absl::InvalidArgumentError(
        "trainer.advantage_normalization is terms, but the reward is only the outcome, which has no terms: give "
        "rewards.terms, or set it to group or batch");
  }
  if (config.trainer.by_role() && config.agents.branching.width > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "agents.branching.width is ", config.agents.branching.width,
        ", and trainer.advantage_groups is role: the turns of "
        "a trunk count for all its leaves, and no role can be credited with them; set the first to 0 or the second to "
        "episode"));
  }
  return base::Annotate(config.agents.Validate(), "agents");
}

// The names appear in metrics.
absl::Status CheckSets(const std::map<std::string, std::string>& sets) {
  for (const auto& [name, path] : sets) {
    const auto fits = [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    };
    if (name.empty() || name.size() > 64 || !std::all_of(name.begin(), name.end(), fits)) {
      return absl::InvalidArgumentError(absl::StrCat("eval.tasks: the set '", name,
                                                     "' needs a name of 1 to 64 letters, ",
                                                     "digits, dots, hyphens and underscores"));
    }
    if (path.empty()) return absl::InvalidArgumentError(absl::StrCat("eval.tasks: the set '", name, "' names no file"));
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluation(const RunConfig& config) {
  if (config.eval.avg_n < 1) return absl::InvalidArgumentError("eval.avg_n must be at least 1");
  if (config.eval.every_versions < 0) {
    return absl::InvalidArgumentError("eval.every_versions must be 0 (only the last version) or more");
  }
  INGOT_RETURN_IF_ERROR(CheckSets(config.eval.sets));
  if (config.eval.keep_best && !config.eval.has_tasks()) {
    return absl::InvalidArgumentError(
        "eval.keep_best keeps the model with the best held-out reward, but eval.tasks names no tasks");
  }
  if (config.eval.has_tasks() && config.eval.of_earlier_versions() && MostEvaluations(config) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.eval.every_versions > 0 ? "eval.every_versions" : "eval.at_start",
        ": no version can be evaluated, as an engine retains ", "rollout.max_retained_versions (",
        config.rollout.max_retained_versions, ") besides the newest, and gateway.models pins that many; raise it"));
  }
  return absl::OkStatus();
}

absl::Status CheckGoal(const GoalOptions& goal, bool has_evaluation) {
  if (goal.first_steps < 0 || goal.last_steps < 0) {
    return absl::InvalidArgumentError("goal.first_steps and goal.last_steps must be 0 (no goal) or more");
  }
  if (goal.of_evaluation() && !has_evaluation) {
    return absl::InvalidArgumentError("goal.eval_above bounds the held-out reward, but eval.tasks names no tasks");
  }
  return absl::OkStatus();
}

absl::Status CheckCompute(const RunConfig& config) {
  if (config.total_threads < 0 || config.rollout_threads < 0) {
    return absl::InvalidArgumentError("compute.threads and compute.rollout_threads must be 0 or more");
  }
  if (config.total_threads > 0 && config.rollout_threads > config.total_threads) {
    return absl::InvalidArgumentError(absl::StrCat("compute.rollout_threads ", config.rollout_threads,
                                                   " is more than compute.threads ", config.total_threads,
                                                   ", of which they are a part"));
  }
  if (config.device == "cuda" && config.numerics == kernels::Numerics::kExact) {
    return absl::InvalidArgumentError(
        "numerics=exact works only on the CPU: use numerics=fast with device=cuda, or device=cpu");
  }
  return absl::OkStatus();
}

absl::Status CheckMetrics(const RunConfig& config) {
  const MetricsConfig& metrics = config.metrics;
  if (metrics.max_labels < 1) return absl::InvalidArgumentError("metrics.max_labels must be at least 1");
  if (metrics.port < 0 || metrics.port > 65535) return absl::InvalidArgumentError("metrics.port must be in [0, 65535]");
  if (metrics.port == 0 || !config.gateway.admin_key_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "metrics.port needs the admin key, but gateway.admin_key_file names no file: name one, "
      "or "
      "read the socket files in RUN/sockets instead");
}

absl::Status CheckTaskFormat(const RunConfig& config) {
  if (config.task_format == "auto") return absl::OkStatus();
  std::vector<std::pair<std::string, std::string>> named;
  for (const std::string& file : config.task_files()) named.emplace_back("data.tasks", file);
  for (const auto& [name, files] : config.eval.Files()) {
    for (const std::string& file : files) named.emplace_back("eval.tasks", file);
  }
  for (const auto& [key, path] : named) {
    if (dataset::IsHarborFolder(path) == (config.task_format == "harbor")) continue;
    return absl::InvalidArgumentError(absl::StrCat("data.format is ", config.task_format, ", and ", key, " (", path,
                                                   ") is ", config.task_format == "harbor" ? "no" : "a", " folder"));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(CheckTaskFormat(config));
  if (!config.tasks.empty() || !config.sft_data.empty() || !config.dpo_data.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "there is nothing to train on: data.tasks names no file of training tasks, and neither data.sft nor data.dpo "
      "one for supervised training");
}

absl::Status Validate(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(CheckRoles(config));
  INGOT_RETURN_IF_ERROR(CheckEvaluation(config));
  INGOT_RETURN_IF_ERROR(CheckGoal(config.goal, config.eval.has_tasks()));
  INGOT_RETURN_IF_ERROR(CheckCompute(config));
  INGOT_RETURN_IF_ERROR(CheckCluster(config.cluster));
  INGOT_RETURN_IF_ERROR(CheckMetrics(config));
  INGOT_RETURN_IF_ERROR(CheckData(config));
  return CheckStages(config);
}

// Applies the preset to the keys that neither file nor command line sets; the effective configuration shows the result.
absl::Status ExpandPreset(base::Schema& schema, const std::string& name) {
  INGOT_ASSIGN_OR_RETURN(const trainer::PresetSettings settings, trainer::Preset(name));
  std::string text;
  for (const auto& [field, value] : settings) {
    if (schema.Origin("trainer." + field) == "default") absl::StrAppend(&text, "  ", field, ": ", value, "\n");
  }
  return text.empty() ? absl::OkStatus() : schema.LoadText("trainer:\n" + text, "trainer.preset " + name);
}

}  // namespace

base::Schema BindSchema(RunConfig& config) {
  base::Schema schema;
  BindRun(schema, config);
  BindModel(schema, config.model);
  BindScheduler(schema, config.scheduler);
  schema.Section("trainer", config.trainer);
  schema.Section("sft", config.trainer.sft);
  schema.Section("dpo", config.trainer.dpo);
  BindRollout(schema, config.rollout);
  BindGateway(schema, config.gateway, config.http, config.page);
  BindLoggers(schema, config.loggers);
  BindDataPool(schema, config.datapool);
  schema.Field("datapool.keep_steps", &config.scheduler.keep_steps,
               "newest trained steps whose trees stay, besides those that a checkpoint may replay; 0: all stay");
  BindWeights(schema, config.weights);
  BindWeightTransport(schema, config.weights.ways);
  BindAgents(schema, config.agents);
  BindSandbox(schema, config.sandbox, config.sandbox_require);
  BindSampling(schema, config.scheduler.sampling, config.task_domains);
  schema.Section("rewards", config.rewards);
  BindEval(schema, config);
  BindCluster(schema, config.cluster);
  BindMetrics(schema, config.metrics);
  return schema;
}

absl::Status RequireTasks(const RunConfig& config) {
  if (!config.tasks.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "data.tasks names no file of training tasks: only `ingot train` and `ingot launch` work without it, for "
      "supervised "
      "training");
}

int64_t MostEvaluations(const RunConfig& config) {
  std::set<int64_t> pinned;
  for (const gateway::ModelOptions& model : config.gateway.models) {
    if (model.weights == gateway::ModelWeights::kPinned) pinned.insert(model.version);
  }
  return std::min<int64_t>(config.scheduler.max_active_evals,
                           config.rollout.max_retained_versions - std::ssize(pinned));
}

weights::PublisherOptions WeightsConfig::Options() const {
  weights::PublisherOptions options;
  options.deadline = std::chrono::milliseconds(deadline_ms);
  options.codec.zstd_level = zstd_level;
  return options;
}

CoreBudget SplitCores(const RunConfig& config) {
  CoreBudget cores;
  cores.total = config.total_threads > 0 ? config.total_threads
                                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cores.rollout = config.rollout_threads > 0 ? std::min(config.rollout_threads, cores.total) : (cores.total + 1) / 2;
  cores.trainer = std::max(1, cores.total - cores.rollout);
  return cores;
}

absl::StatusOr<LoadedConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides) {
  LoadedConfig loaded{std::make_unique<RunConfig>(), base::Schema()};
  loaded.schema = BindSchema(*loaded.config);
  INGOT_RETURN_IF_ERROR(loaded.schema.LoadFile(path));
  for (const std::string& assignment : overrides) INGOT_RETURN_IF_ERROR(loaded.schema.Set(assignment));
  INGOT_RETURN_IF_ERROR(ExpandPreset(loaded.schema, loaded.config->trainer.preset));
  INGOT_RETURN_IF_ERROR(base::Annotate(DeriveDomains(*loaded.config), path));
  Derive(*loaded.config);
  INGOT_RETURN_IF_ERROR(base::Annotate(Validate(*loaded.config), path));
  return loaded;
}

}  // namespace ingot::app
