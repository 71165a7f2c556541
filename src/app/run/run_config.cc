#include "app/run/run_config.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>

#include "app/run/named_models.h"
#include "dataset/harbor.h"
#include "dataset/jsonl.h"
#include "kv/memory_store.h"
#include "reward/terms/python_score.h"
#include "sandbox/reach.h"
#include "trainer/presets.h"

namespace ingot::app {
namespace {

namespace fs = std::filesystem;

// Returns the key for `data: FILE`, depending on whether the file's first line is a preference pair or a conversation.
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
  schema.Field("run.name", &config.name, "the run's name; its folder is run.root/run.name");
  schema.Field("run.root", &config.root, "folder that contains the runs");
  schema.Choice("run.if_exists", &config.if_exists, {"fail", "replace", "resume"},
                "what to do if the run exists: fail, replace it, or resume it");
  schema.Field("run.seed", &config.seed, "seed for everything random: weights, task order, sampling, shuffling");
  schema.Choice("run.log_level", &config.log_level, {"trace", "debug", "info", "warn", "error"},
                "lowest level in the log file; warnings also go to the terminal");
  schema.Field("python", &config.python,
               "Python interpreter for your reward functions and loss; empty: the active environment's, or python3");
  schema.Choice("device", &config.device, {"auto", "cpu", "cuda"},
                "device to compute on; auto: CUDA if there is a device");
  schema.Choice("numerics", &config.numerics, {"fast", "exact"},
                "how closely the trainer's log-probs match rollout's: fast: up to rounding (fp32: 1e-5); exact: to the "
                "bit, including merged trees, with fp32 or bf16; device auto is then the CPU, and device cuda computes "
                "linear layers with Ingot's own kernels instead of cuBLAS");
  schema.Field("compute.threads", &config.total_threads,
               "compute threads of rollout and trainer together; 0: all cores", base::NotNegative());
  schema.Field("compute.rollout_threads", &config.rollout_threads,
               "the engine's share of compute.threads when both run in one process; 0: half, rounded up",
               base::NotNegative());
  schema.Field("compute.lend", &config.lend_threads,
               "while the trainer or an engine on this machine waits, the others also compute on its threads, if "
               "nothing else uses the cores; results do not change; only on CPUs");
  schema.Shorthand("data", SupervisedKeyOf);
  schema.Field("data.tasks", &config.tasks, &config.more_tasks,
               "JSONL file with training tasks, one object per line, or a folder of Harbor tasks, or a list of these, "
               "read in order; empty: only supervised training, without agents");
  schema.Choice("data.format", &config.task_format, {"auto", "jsonl", "harbor"},
                "format of data.tasks and eval.tasks; auto: harbor for a folder, jsonl for a file");
  schema.Field("data.sft", &config.sft_data, "JSONL file with conversations for the SFT stage; empty: none");
  schema.Field(
      "data.dpo", &config.dpo_data,
      "JSONL file with preference pairs (prompt, chosen, rejected) for the DPO stage, which follows SFT; empty: none");
}

// User functions without an interpreter use the key `python`.
void DeriveInterpreters(RunConfig& config) {
  const auto derive = [&config](reward::PythonOptions& python) {
    if (python.interpreter.empty()) python.interpreter = config.python;
  };
  for (agents::RecipeOptions& recipe : config.agents.recipes) {
    if (recipe.verifier.kind == "python") derive(recipe.verifier.python);
  }
  for (reward::TermOptions& term : config.rewards.terms) {
    if (term.kind == "python") derive(term.Of<reward::PythonScoreOptions>());
  }
}

// Sets the fields that follow from other keys, once, so that they cannot differ between roles.
void Derive(RunConfig& config) {
  config.trainer.groups_per_step = config.scheduler.groups_per_step;
  config.trainer.group_size = config.scheduler.group_size;
  config.scheduler.branching = {.at = config.agents.branching.at, .width = config.agents.branching.width};
  config.trainer.total_steps = config.scheduler.total_steps;
  config.trainer.seed = config.seed;
  config.trainer.numerics = config.numerics;
  // CUDA's exact kernels have never run on a GPU, so a run must ask for them.
  if (config.numerics == kernels::Numerics::kExact && config.device == "auto") config.device = "cpu";
  config.scheduler.seed = config.seed;
  config.gateway.seed = config.seed;
  config.scheduler.keep_checkpoints = config.trainer.keep_checkpoints;
  // Users may test external agents with a run that waits for them.
  if (config.agents.recipes.empty()) config.scheduler.give_up_unstarted = 0;
  // Slots fail in parallel, so each one fails a few times before the run gives up.
  if (int32_t& most = config.scheduler.give_up_unstarted; most > 0)
    most = std::max(most, 3 * config.agents.concurrency);
  DeriveInterpreters(config);
  config.scheduler.final_eval = config.eval.has_tasks();
  config.trainer.draft.start = config.model.path;
  const CoreBudget cores = SplitCores(config);
  config.rollout.threads = cores.rollout;
  config.trainer.threads = std::max(1, cores.trainer / std::max(1, config.cluster.trainer_ranks));
  config.rollout.shares_device = config.trainer.shares_device = config.cluster.placement == Placement::kShared;
  config.datapool.path = config.root + "/" + config.name + "/pool";
  if (config.datapool.postgres.name.empty()) config.datapool.postgres.name = config.name;
  config.datapool.postgres.replace = config.if_exists == IfExists::kReplace;
}

// A run with only supervised stages needs at least one stage with steps.
absl::Status CheckStages(const RunConfig& config) {
  const auto none = [](const std::string& data, const trainer::SftOptions& stage) {
    return data.empty() || (stage.epochs == 0 && stage.max_steps == 0);
  };
  if (config.learn.on() || !config.tasks.empty() || !none(config.sft_data, config.trainer.sft) ||
      !none(config.dpo_data, config.trainer.dpo)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "there is nothing to train: epochs and max_steps are 0 for every stage whose data is given (sft, dpo), and "
      "data.tasks names no file of training tasks");
}

// Returns why another project's server cannot sample for this run.
absl::Status CheckExternalEngine(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(config.external.Validate(config.engine));
  if (!config.has_external_engine()) return absl::OkStatus();
  const auto refused = [](std::string_view key, std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("rollout.engine is not ingot, and ", base::View(key), ": ", base::View(why)));
  };
  if (config.numerics == kernels::Numerics::kExact) {
    return refused("numerics is exact", "another engine's kernels round differently; use fast");
  }
  if (config.rollout.max_tokens_per_turn_slice > 0 || config.rollout.slice_seconds > 0) {
    return refused("rollout.max_tokens_per_turn_slice or rollout.slice_seconds is set",
                   "another engine cannot continue a paused call; set both to 0");
  }
  if (config.rollout.kv_store.on()) {
    return refused("rollout.kv_store.path is set", "another engine keeps its own KV; remove it");
  }
  if (config.rollout.episode_version == rollout::EpisodeVersion::kPinned) {
    return refused("rollout.episode_version is pinned", "another engine keeps no earlier versions; use follow");
  }
  if (config.rollout.record_routes) {
    return refused("rollout.record_routes is true", "Ingot does not read another engine's experts");
  }
  if (!config.external.workers.empty() && config.model.lora.rank > 0) {
    return refused("rollout.external.workers is set",
                   "a worker that joins would not have the run's adapters; set trainer.lora.rank to 0, or give each "
                   "server its own rollout role");
  }
  if (config.eval.has_tasks() && config.eval.of_earlier_versions() && config.model.lora.rank == 0) {
    return refused("eval.at_start or eval.every_versions is set",
                   "an evaluation pins its version, but the server has only the newest full weights; train adapters "
                   "(trainer.lora.rank), or set eval.at_start to false and eval.every_versions to 0");
  }
  return absl::OkStatus();
}

// Masks exclude tokens from the policy loss, which supervised stages do not have.
absl::Status CheckNoMasks(const trainer::TrainerOptions& options) {
  if (!options.off_policy_mask.on() && options.truncated == "train") return absl::OkStatus();
  return absl::InvalidArgumentError(
      "trainer.mask_token_ratio_*, trainer.mask_sequence_ratio_*, trainer.opsm_delta and trainer.truncated mask "
      "sampled tokens, and without data.tasks nothing is sampled: remove these keys, or name training tasks");
}

absl::Status CheckRoles(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(config.model.Validate());
  INGOT_RETURN_IF_ERROR(base::Annotate(config.rollout.Validate(), "rollout"));
  INGOT_RETURN_IF_ERROR(CheckExternalEngine(config));
  if (config.rollout.router.prefill_engines >= std::max(config.cluster.rollout_engines, 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rollout.router.prefill_engines is ", config.rollout.router.prefill_engines, " of ",
        config.cluster.rollout_engines, " engines (cluster.rollout_engines), and none is left to sample: lower it"));
  }
  if (kv::IsInMemory(config.rollout.kv_store) && config.rollout.router.prefill_engines == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rollout.kv_store.path is ", base::View(kv::kMemoryPath),
                     ", but rollout.router.prefill_engines, from which the other engines pull, is 0: set it to at "
                     "least 1, or the path to a directory"));
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(config.gateway.Validate(), "gateway"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.http.Validate(), "http"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.datapool.Validate(), "datapool"));
  if (config.cluster.datapools > 1 && config.datapool.backend != "postgres") {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.datapools is ", config.cluster.datapools, ", and datapool.backend is ", config.datapool.backend,
        ", which only one process can open: set it to postgres, or cluster.datapools to 1"));
  }
  INGOT_RETURN_IF_ERROR(base::Annotate(config.scheduler.Validate(), "scheduler"));
  INGOT_RETURN_IF_ERROR(base::Annotate(config.trainer.Validate(), "trainer"));
  INGOT_RETURN_IF_ERROR(config.weights.transports.Validate(config.cluster.rollout_engines));
  if (config.tasks.empty() && !config.learn.on()) return CheckNoMasks(config.trainer);
  INGOT_RETURN_IF_ERROR(config.rewards.Validate());
  INGOT_RETURN_IF_ERROR(CheckAskedModels(config.rewards, config.gateway));
  if (config.cluster.rewards_role && !config.has_reward_stage()) {
    return absl::InvalidArgumentError(
        "cluster.rewards_role is true, but the reward is only the outcome, which needs no reward stage: set "
        "rewards.terms, or set it to false");
  }
  if (config.trainer.by_terms() && config.rewards.outcome_alone()) {
    return absl::InvalidArgumentError(
        "trainer.advantage_normalization is terms, but the reward is only the outcome, which has no terms: set "
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

absl::Status CheckEvaluation(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(config.eval.Validate());
  if (config.eval.has_tasks() && config.eval.of_earlier_versions() && MaxEvaluations(config) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.eval.every_versions > 0 ? "eval.every_versions" : "eval.at_start",
                     ": no version can be evaluated, because an engine retains ", "rollout.max_retained_versions (",
                     config.rollout.max_retained_versions,
                     ") in addition to the newest, and gateway.models pins that many; raise it"));
  }
  if (config.goal.of_evaluation() && !config.eval.has_tasks()) {
    return absl::InvalidArgumentError(
        "goal.eval_above needs the held-out reward, but eval.tasks names no tasks: name held-out tasks, or remove "
        "goal.eval_above");
  }
  return absl::OkStatus();
}

absl::Status CheckCompute(const RunConfig& config) {
  if (config.total_threads > 0 && config.rollout_threads > config.total_threads) {
    return absl::InvalidArgumentError(absl::StrCat("compute.rollout_threads ", config.rollout_threads,
                                                   " is more than compute.threads ", config.total_threads,
                                                   ", which includes them: lower it"));
  }
  if (config.device == "cuda" && config.rollout.kv_store.on()) {
    return absl::InvalidArgumentError("rollout.kv_store.path works only on the CPU: remove it, or set device to cpu");
  }
  return absl::OkStatus();
}

absl::Status CheckPlacement(const RunConfig& config) {
  if (config.cluster.placement == Placement::kSplit) return absl::OkStatus();
  const auto refused = [](std::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.placement is shared, and ", base::View(why)));
  };
  if (config.has_external_engine())
    return refused("rollout.engine is not ingot: its server cannot be parked; use split");
  if (config.rollout.kv_store.on()) {
    return refused("rollout.kv_store.path is set, but engines with a KV store cannot be parked: set only one of them");
  }
  if (config.cluster.takeover_engines > 0) {
    return refused("cluster.takeover_engines is above 0: engines that join during the run are not parked; set it to 0");
  }
  return absl::OkStatus();
}

absl::Status CheckMetrics(const RunConfig& config) {
  if (config.metrics.port == 0 || !config.gateway.admin_key_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "metrics.port needs the admin key, but gateway.admin_key_file names no file: name one, or read the socket files "
      "in RUN/sockets instead");
}

// Agents may need the other files in the folder of a configuration that names some there. It is part of the effective
// configuration, because a launched role reads a copy of the file elsewhere.
void ShowToAgents(const std::string& folder, sandbox::SubstrateOptions& sandbox) {
  const bool shown = std::find(sandbox.visible.begin(), sandbox.visible.end(), folder) != sandbox.visible.end();
  if (!shown && !sandbox::IsTooWide(folder)) sandbox.visible.push_back(folder);
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
  if (config.learn.on()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "there is nothing to train on: set data.tasks to training tasks, or data.sft or data.dpo to supervised examples");
}

absl::Status Validate(const RunConfig& config) {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(config));
  INGOT_RETURN_IF_ERROR(CheckRoles(config));
  INGOT_RETURN_IF_ERROR(CheckEvaluation(config));
  INGOT_RETURN_IF_ERROR(CheckCompute(config));
  INGOT_RETURN_IF_ERROR(config.cluster.Validate());
  INGOT_RETURN_IF_ERROR(CheckPlacement(config));
  INGOT_RETURN_IF_ERROR(CheckMetrics(config));
  INGOT_RETURN_IF_ERROR(CheckData(config));
  return CheckStages(config);
}

// Applies the preset to keys that are set neither in the file nor on the command line. The effective configuration
// shows the result.
absl::Status ExpandPreset(base::Schema& schema, const std::string& name) {
  INGOT_ASSIGN_OR_RETURN(const trainer::PresetSettings settings, trainer::Preset(name));
  std::string text;
  for (const auto& [field, value] : settings) {
    if (schema.Origin("trainer." + field) == "default") absl::StrAppend(&text, "  ", field, ": ", value, "\n");
  }
  return text.empty() ? absl::OkStatus() : schema.LoadText("trainer:\n" + text, "trainer.preset " + name);
}

}  // namespace

void Bind(base::Schema& schema, RunConfig& config) {
  BindRun(schema, config);
  schema.Section("model", config.model);
  schema.Section("trainer.lora", config.model, BindLora);
  schema.Section("scheduler", config.scheduler);
  schema.Section("trainer", config.trainer);
  schema.Section("sft", config.trainer.sft);
  schema.Section("dpo", config.trainer.dpo);
  schema.Section("draft", config.trainer.draft);
  schema.Section("rollout", config.rollout);
  schema.Choice("rollout.engine", &config.engine, engines::EngineKindNames(),
                "who samples: Ingot's own engine, or a server of vLLM or SGLang next to each rollout role");
  schema.Section("rollout.external", config.external);
  schema.Section("gateway", config.gateway);
  schema.Section("gateway.tls", config.http, http::BindTls);
  schema.Section("http", config.http);
  schema.Section("http", config.page);
  schema.Section("loggers", config.loggers);
  schema.Section("datapool", config.datapool);
  schema.Section("datapool", config.scheduler, scheduler::BindStorage);
  schema.Section("weights", config.weights);
  schema.Section("agents", config.agents);
  schema.Section("sandbox", config.sandbox);
  schema.Section("rewards", config.rewards);
  schema.Section("eval", config.eval);
  schema.Section("eval", config.gateway, gateway::BindEvaluation);
  schema.Section("goal", config.goal);
  schema.Section("learn", config.learn);
  schema.Section("cluster", config.cluster);
  schema.Section("metrics", config.metrics);
}

base::Schema BindSchema(RunConfig& config) {
  base::Schema schema;
  Bind(schema, config);
  return schema;
}

absl::Status RequireTasks(const RunConfig& config) {
  if (!config.tasks.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "data.tasks is empty, but this command needs training tasks: set it. Only `ingot train` and `ingot launch` work "
      "without it, for supervised training");
}

int64_t MaxEvaluations(const RunConfig& config) {
  std::set<int64_t> pinned;
  for (const gateway::ModelOptions& model : config.gateway.models) {
    if (model.weights == gateway::ModelWeights::kPinned) pinned.insert(model.version);
  }
  return std::min<int64_t>(config.scheduler.max_active_evals,
                           config.rollout.max_retained_versions - std::ssize(pinned));
}

CoreBudget SplitCores(const RunConfig& config) {
  CoreBudget cores;
  cores.total = config.total_threads > 0 ? config.total_threads
                                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  cores.rollout = config.rollout_threads > 0 ? std::min(config.rollout_threads, cores.total) : (cores.total + 1) / 2;
  cores.trainer = std::max(1, cores.total - cores.rollout);
  return cores;
}

std::string ConfigDir(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::absolute(path, error);
  return (error ? fs::path(path) : file).lexically_normal().parent_path().string();
}

absl::StatusOr<LoadedConfig> LoadRunConfig(const std::string& path, const std::vector<std::string>& overrides) {
  LoadedConfig loaded{std::make_unique<RunConfig>(), base::Schema()};
  loaded.schema = BindSchema(*loaded.config);
  loaded.schema.Define("config_dir", ConfigDir(path));
  INGOT_RETURN_IF_ERROR(loaded.schema.LoadFile(path));
  for (const std::string& assignment : overrides) INGOT_RETURN_IF_ERROR(loaded.schema.Set(assignment));
  INGOT_RETURN_IF_ERROR(ExpandPreset(loaded.schema, loaded.config->trainer.preset));
  Derive(*loaded.config);
  if (loaded.schema.Used("config_dir")) ShowToAgents(ConfigDir(path), loaded.config->sandbox);
  INGOT_RETURN_IF_ERROR(base::Annotate(Validate(*loaded.config), path));
  return loaded;
}

}  // namespace ingot::app
