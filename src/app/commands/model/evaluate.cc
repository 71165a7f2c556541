// `ingot eval`: evaluates one checkpoint on a configuration's held-out tasks, without training.
#include "app/commands/model/evaluate.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "app/checks/start_check.h"
#include "app/models/device.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/snapshots.h"
#include "app/roles/evaluate_once.h"
#include "app/run/process.h"
#include "app/run/run_args.h"
#include "app/run/threads.h"
#include "app/terminal/terminal.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "view/evaluation/eval_figures.h"
#include "view/evaluation/evaluation.h"
#include "view/evaluation/requirement.h"

namespace ingot::app {
namespace {

constexpr char kEvaluation[] = "evaluation.json";  // names the checkpoint, and later has the result

// Opens ROOT/NAME-eval/CHECKPOINT. Only replaces an earlier evaluation of the same checkpoint.
absl::StatusOr<RunDir> OpenEvaluation(const RunConfig& config, const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const std::string root = absl::StrCat(config.root, "/", config.name, "-eval");
  const std::string name = fs::path(checkpoint).filename();
  const auto reject = [](const std::string& path, const char* what) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", path, "' contains ", what, ": choose another name for the evaluation, --set run.name=NAME"));
  };
  std::error_code none;
  if (fs::exists(root + "/config.yaml", none)) return reject(root, "a run");
  const std::string path = absl::StrCat(root, "/", name);
  if (fs::exists(path + "/config.yaml", none)) {
    const absl::StatusOr<std::string> before = base::ReadFile(absl::StrCat(path, "/", kEvaluation));
    if (!before.ok()) return reject(path, "a run");
    const absl::StatusOr<base::json::value> parsed = base::ParseJson(*before);
    const base::json::value* of = parsed.ok() ? base::Find(*parsed, "checkpoint") : nullptr;
    if (of == nullptr || *of != base::json::value(checkpoint))
      return reject(path, "the evaluation of another checkpoint");
  }
  return RunDir::Open(root, name, IfExists::kReplace);
}

// Parses all of them before the evaluation starts.
absl::StatusOr<std::vector<view::Requirement>> ParseRequirements(const std::vector<std::string>& texts) {
  std::vector<view::Requirement> requirements;
  for (const std::string& text : texts) {
    INGOT_ASSIGN_OR_RETURN(requirements.emplace_back(), view::ParseRequirement(text));
  }
  return requirements;
}

view::Figures FiguresIn(const base::json::object& record) {
  view::Figures figures;
  for (const auto& [name, value] : record) {
    if (value.is_number()) figures[std::string(name)] = value.to_number<double>();
  }
  return figures;
}

// Returns the complete evaluations of other checkpoints next to `dir`, on as many tasks and samples as `record`. Others
// cannot be compared.
std::vector<view::EarlierEvaluation> EarlierEvaluations(const RunDir& dir, const base::json::object& record) {
  namespace fs = std::filesystem;
  std::vector<view::EarlierEvaluation> earlier;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(dir.path()).parent_path(), ignored)) {
    if (fs::equivalent(entry.path(), dir.path(), ignored)) continue;
    const absl::StatusOr<std::string> text = base::ReadFile(entry.path() / kEvaluation);
    const absl::StatusOr<base::json::value> parsed = text.ok() ? base::ParseJson(*text) : text.status();
    if (!parsed.ok() || !parsed->is_object() || !parsed->get_object().contains("eval/reward_mean")) continue;
    const base::json::object& other = parsed->get_object();
    const auto same = [&](const char* key) { return other.if_contains(key) && other.at(key) == record.at(key); };
    if (same("eval/tasks") && same("eval/avg_n")) earlier.push_back({entry.path().filename(), FiguresIn(other)});
  }
  return earlier;
}

// Prints a line for each requirement. Returns whether all are met.
absl::StatusOr<bool> MeetsRequirements(const std::vector<view::Requirement>& requirements, const RunDir& dir,
                                       const base::json::object& record) {
  bool met = true;
  const view::Figures figures = FiguresIn(record);
  const std::vector<view::EarlierEvaluation> earlier = EarlierEvaluations(dir, record);
  for (const view::Requirement& requirement : requirements) {
    INGOT_ASSIGN_OR_RETURN(const view::RequirementResult result, view::CheckRequirement(requirement, figures, earlier));
    std::printf("%s\n", result.text.c_str());
    met = met && result.met;
  }
  return met;
}

// Returns ", 40 of 100 tasks", or "" if every task in the folder runs.
std::string LeftOut(int64_t tasks, int64_t left_out) {
  return left_out == 0 ? "" : absl::StrCat(", ", tasks, " of ", tasks + left_out, " tasks");
}

// Prints the figures from view/evaluation/eval_figures.h and adds them to the record. For a domain or a set, prints only the mean
// reward.
void AddFigures(datapool::Client& pool, double success, base::json::object& record) {
  const auto figures = view::EvalFiguresOf(pool, 0, success);
  if (!figures.ok()) {
    INGOT_LOG(warn, "only the evaluation's mean reward is known: {}", figures.status().ToString());
    return;
  }
  for (const auto& [name, value] : *figures) {
    const std::string printable = base::Printable(name);  // may contain a domain
    record[printable] = value;
    const bool of_part = name.find("@domain:") != std::string::npos || name.find("@set:") != std::string::npos;
    if (!of_part || name.starts_with("eval/reward_mean@")) std::printf("%s %.4f\n", printable.c_str(), value);
  }
}

void PrintInterval(datapool::Client& pool) {
  const absl::StatusOr<view::TaskRewards> tasks = view::EvaluatedTasks(pool, 0);
  if (!tasks.ok() || tasks->size() < 2) return;
  const view::Estimate estimate = view::EstimateOf(*tasks);
  std::printf("95%% interval over %ld tasks: %.4f to %.4f\n", static_cast<long>(estimate.values), estimate.low,
              estimate.high);
}

absl::StatusOr<int> EvaluateOrError(const EvaluateArgs& given) {
  const std::string& checkpoint = given.checkpoint;
  const RunArgs& args = given.run;
  INGOT_ASSIGN_OR_RETURN(const std::vector<view::Requirement> requirements, ParseRequirements(given.requirements));
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  RunConfig& config = *loaded.config;
  if (!config.eval.has_tasks()) return absl::InvalidArgumentError(absl::StrCat(args.config, ": eval.tasks is not set"));
  INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (config.agents.recipes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.config, ": agents.recipes is empty, but `ingot eval` starts the agents itself"));
  }
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  UseModelFolder(checkpoint, config);
  const std::string effective = loaded.schema.EffectiveYaml();
  config.scheduler.total_steps = 0;  // only evaluations; not in config.yaml, which would not load with it
  config.rollout.threads = SplitCores(config).total;
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device.torch_name));
  INGOT_ASSIGN_OR_RETURN(const StartCheck check, CheckStart(config, model.text, model.shape.max_position_embeddings));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> snapshot, LoadSnapshot(checkpoint, 0));

  const std::string path = std::filesystem::canonical(checkpoint);  // exists because it was read above
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, OpenEvaluation(config, path));
  base::InitLogging("eval", config.log_level, dir.logs() + "/ingot.log");
  for (const std::string& warning : check.warnings) INGOT_LOG(warn, "warning: {}", warning);
  base::json::object record{
      {"checkpoint", path}, {"eval/tasks", check.data.eval_tasks}, {"eval/tasks_left_out", check.data.eval_left_out}};
  INGOT_RETURN_IF_ERROR(dir.WriteFile(kEvaluation, base::PrintJson(record) + "\n"));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", effective));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, model.text));
  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = ReportDevice(device, metrics);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedRun> run, EmbeddedRun::Start(config, dir, model, 0, metrics));
  bool evaluated = false;
  INGOT_RETURN_IF_ERROR(EvaluateOnce(
      "eval", config.eval, dir, *run, snapshot, [&](const v1::EvalStatusResponse& result, datapool::Client& pool) {
        evaluated = true;
        std::printf("eval/reward_mean %s  (avg@%d, %d episodes, %d failed%s)  trajectories: ingot inspect %s\n",
                    FormatNumber("{:.4f}", result.reward_mean()).c_str(), config.eval.avg_n, result.total(),
                    result.failed(), LeftOut(check.data.eval_tasks, check.data.eval_left_out).c_str(),
                    dir.path().c_str());
        PrintInterval(pool);
        record["eval/reward_mean"] = result.reward_mean();
        record["eval/avg_n"] = config.eval.avg_n;
        record["eval/episodes"] = result.total();
        record["eval/failed"] = result.failed();
        AddFigures(pool, config.eval.success, record);
        return dir.WriteFile(kEvaluation, base::PrintJson(record) + "\n");
      }));
  if (!evaluated) return 1;
  INGOT_ASSIGN_OR_RETURN(const bool met, MeetsRequirements(requirements, dir, record));
  return met ? 0 : 1;
}

}  // namespace

int Evaluate(const EvaluateArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = EvaluateOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
