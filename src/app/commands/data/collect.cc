// `ingot collect`: runs a configuration's recipes on its training tasks with several samples each, without training.
// The pool is in a run's folder, which `export`, `regrade`, `tasks rate`, and `inspect` can read.
#include "app/commands/data/collect.h"

#include <cstdio>
#include <filesystem>
#include <string>

#include "app/checks/start_check.h"
#include "app/models/device.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/snapshots.h"
#include "app/roles/evaluate_once.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"
#include "app/run/threads.h"
#include "app/terminal/terminal.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "kernels/torch/exact.h"
#include "weights/snapshot.h"

namespace ingot::app {
namespace {

constexpr char kCollection[] = "collection.json";  // the settings, and later the result

absl::Status UseModel(const std::string& name, RunConfig& config) {
  for (const gateway::ModelOptions& model : config.gateway.models) {
    if (model.name != name) continue;
    if (model.weights == gateway::ModelWeights::kExternal) {
      config.gateway.stand_in = name;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("--model ", name,
                                                   ": it is not an external model in gateway.models; for ",
                                                   "your own weights, use --checkpoint"));
  }
  return absl::InvalidArgumentError(absl::StrCat("--model ", name, ": gateway.models has no model of this name"));
}

// Opens ROOT/NAME. With kResume, a stopped collection starts over, because its record would have the wrong settings for
// old episodes in the pool. Returns ALREADY_EXISTS if the folder contains something worth keeping.
absl::StatusOr<RunDir> OpenCollection(RunConfig& config) {
  const std::string path = absl::StrCat(config.root, "/", config.name);
  const absl::StatusOr<std::string> before = base::ReadFile(absl::StrCat(path, "/", kCollection));
  const absl::StatusOr<base::json::value> parsed = base::ParseJson(before.value_or(""));
  const bool finished = parsed.ok() && base::Find(*parsed, "episodes") != nullptr;
  if (finished && config.if_exists != IfExists::kReplace) {
    return absl::AlreadyExistsError(absl::StrCat(
        "'", path,
        "' contains a finished collection: choose another run.name, or replace it with --set run.if_exists=replace"));
  }
  if (before.ok() && config.if_exists == IfExists::kResume) {
    config.if_exists = IfExists::kReplace;
    config.datapool.postgres.replace = true;
  }
  absl::StatusOr<RunDir> dir = RunDir::Open(config.root, config.name, config.if_exists);
  if (before.ok() && absl::IsAlreadyExists(dir.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", path,
                     "' contains a collection that was stopped: start it over with --set run.if_exists=resume, which "
                     "removes its episodes, or choose another run.name"));
  }
  if (dir.ok() && dir->existed()) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", path, "' contains a run: choose another name for the collection with --set run.name=NAME"));
  }
  return dir;
}

absl::StatusOr<int> CollectOrError(const CollectArgs& args) {
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (config.agents.recipes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.run.config, ": agents.recipes is empty, but `ingot collect` starts the agents itself"));
  }
  if (args.samples < 1) return absl::InvalidArgumentError("--samples must be at least 1");
  if (args.temperature < 0) return absl::InvalidArgumentError("--temperature must be 0 or more");
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  kernels::SetDeviceNumerics(config.numerics);
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  if (!args.model.empty()) INGOT_RETURN_IF_ERROR(UseModel(args.model, config));
  if (!args.checkpoint.empty()) {
    config.model.path = args.checkpoint;
    config.model.chat_format.clear();  // use the checkpoint's own
    config.model.chat_template.clear();
  }
  const std::string effective = loaded.schema.EffectiveYaml();
  config.scheduler.total_steps = 0;  // no training
  config.scheduler.final_eval = true;
  config.rollout.threads = SplitCores(config).total;
  config.eval.tasks.clear();  // checked as data.tasks
  config.eval.sets.clear();
  config.eval.avg_n = args.samples;
  config.gateway.eval_max_new_tokens = 0;  // these are not held-out tasks
  config.gateway.eval_sampling.temperature = static_cast<float>(args.temperature);
  INGOT_ASSIGN_OR_RETURN(ModelSetup model, SetUpModel(config.model, device.torch_name));
  if (!args.script.empty()) {
    INGOT_ASSIGN_OR_RETURN(model.script, LoadScript(args.script, model.text));
  }
  INGOT_ASSIGN_OR_RETURN(const StartCheck check, CheckStart(config, model.text, model.shape.max_position_embeddings));
  config.eval.tasks = config.tasks;
  config.eval.more_tasks = config.more_tasks;
  INGOT_ASSIGN_OR_RETURN(
      const std::shared_ptr<const weights::Snapshot> snapshot,
      config.model.path.empty() ? RandomSnapshot(model.shape, config.seed) : LoadSnapshot(config.model.path, 0));

  INGOT_ASSIGN_OR_RETURN(const RunDir dir, OpenCollection(config));
  base::InitLogging("collect", config.log_level, dir.logs() + "/ingot.log");
  for (const std::string& warning : check.warnings) INGOT_LOG(warn, "warning: {}", warning);
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", effective));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, model.text));
  base::json::object record{{"checkpoint", args.checkpoint},
                            {"model", args.model},
                            {"script", args.script},
                            {"samples", args.samples},
                            {"temperature", args.temperature},
                            {"tasks", check.data.tasks},
                            {"tasks_left_out", check.data.left_out}};
  const auto write = [&] { return dir.WriteFile(kCollection, base::PrintJson(record) + "\n"); };
  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = ReportDevice(device, metrics);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedRun> run, EmbeddedRun::Start(config, dir, model, 0, metrics));
  bool done = false;
  const auto report = [&](const v1::EvalStatusResponse& result, datapool::Client&) {
    done = true;
    std::printf("%d episodes, %d failed, mean outcome %s  pool: %s\n", result.total(), result.failed(),
                FormatNumber("{:.4f}", result.reward_mean()).c_str(), dir.path().c_str());
    record["episodes"] = result.total();
    record["failed"] = result.failed();
    record["outcome_mean"] = result.reward_mean();
    return write();
  };
  INGOT_RETURN_IF_ERROR(EvaluateOnce("collect", config.eval, dir, *run, snapshot, report, write));
  return done ? 0 : 1;
}

}  // namespace

int Collect(const CollectArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = CollectOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
