// `ingot eval`: evaluates one checkpoint on a configuration's held-out tasks, without training.
#include "app/commands/model/evaluate.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/checks/start_check.h"
#include "app/commands/model/evaluation_folder.h"
#include "app/commands/model/evaluation_plan.h"
#include "app/models/device.h"
#include "app/models/kept_tokenizer.h"
#include "app/models/snapshots.h"
#include "app/roles/evaluate_once.h"
#include "app/run/process.h"
#include "app/run/run_args.h"
#include "app/run/threads.h"
#include "app/terminal/terminal.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "kernels/torch/exact.h"
#include "view/evaluation/eval_figures.h"
#include "view/evaluation/eval_table.h"
#include "view/evaluation/evaluation.h"
#include "view/evaluation/requirement.h"

namespace ingot::app {
namespace {

// One finished evaluation.
struct Evaluated {
  std::string scaffold, folder;
  base::json::object record;
  std::vector<view::EvalRow> rows;
  std::vector<view::EarlierEvaluation> earlier;
};

// Loads the configuration with the checkpoint as its model and, with a scaffold, this recipe for all tasks.
absl::StatusOr<LoadedConfig> ConfigOf(const EvaluateArgs& args, const std::string& scaffold) {
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  RunConfig& config = *loaded.config;
  UseModelFolder(args.checkpoint, config);
  if (!scaffold.empty()) {
    std::erase_if(config.agents.recipes, [&](const agents::RecipeOptions& recipe) { return recipe.name != scaffold; });
    config.agents.recipes.front().domains.clear();
  }
  return loaded;
}

// Returns ", 40 of 100 tasks", or "" if every task in the folder runs.
std::string LeftOut(int64_t tasks, int64_t left_out) {
  return left_out == 0 ? "" : absl::StrCat(", ", tasks, " of ", tasks + left_out, " tasks");
}

// Adds the figures from view/evaluation/eval_figures.h and the table's rows.
void AddFigures(datapool::Client& pool, const EvaluationPlan& plan, double success, Evaluated& evaluated) {
  view::EvalFigures figures(success, plan.passes);
  if (const absl::Status read = view::AddEvaluation(pool, 0, figures); !read.ok()) {
    INGOT_LOG(warn, "only the evaluation's mean reward is known: {}", read.ToString());
    return;
  }
  for (const auto& [name, value] : figures.Metrics()) evaluated.record[base::Printable(name)] = value;
  evaluated.rows = view::EvalRows(figures, evaluated.scaffold, plan.passes);
}

// Prints the figures of all tasks. For a domain or a set, prints only the mean reward.
void PrintFigures(const base::json::object& record) {
  for (const auto& [name, value] : FiguresIn(record)) {
    const bool of_part = name.find("@domain:") != std::string::npos || name.find("@set:") != std::string::npos;
    const bool known = name == "eval/reward_mean" || name.starts_with("eval/tasks") || name == "eval/avg_n" ||
                       name == "eval/episodes" || name == "eval/failed";  // in the first line
    if (known || (of_part && !name.starts_with("eval/reward_mean@"))) continue;
    std::printf("%s %.4f\n", name.c_str(), value);
  }
}

void PrintInterval(const std::vector<view::EvalRow>& rows) {
  if (rows.empty() || rows.back().reward.values < 2) return;
  const view::Estimate& estimate = rows.back().reward;  // of all tasks
  std::printf("95%% interval over %ld tasks: %.4f to %.4f\n", static_cast<long>(estimate.values), estimate.low,
              estimate.high);
}

void PrintResult(const v1::EvalStatusResponse& result, const StartCheck& check, int32_t samples,
                 const Evaluated& evaluated) {
  if (!evaluated.scaffold.empty()) std::printf("scaffold %s\n", base::Printable(evaluated.scaffold).c_str());
  std::printf("eval/reward_mean %s  (avg@%d, %d episodes, %d failed%s)  trajectories: ingot inspect %s\n",
              FormatNumber("{:.4f}", result.reward_mean()).c_str(), samples, result.total(), result.failed(),
              LeftOut(check.data.eval_tasks, check.data.eval_left_out).c_str(), evaluated.folder.c_str());
  PrintInterval(evaluated.rows);
  PrintFigures(evaluated.record);
}

// Returns nullopt if the evaluation did not end.
absl::StatusOr<std::optional<Evaluated>> EvaluateScaffold(const EvaluateArgs& args, const std::string& scaffold,
                                                          EvaluationPlan& plan) {
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, ConfigOf(args, scaffold));
  RunConfig& config = *loaded.config;
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOf(config)));
  kernels::SetDeviceNumerics(config.numerics);
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  const std::string effective = loaded.schema.EffectiveYaml();
  config.scheduler.total_steps = 0;  // only evaluations; not in config.yaml, which would not load with it
  config.rollout.threads = SplitCores(config).total;
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device.torch_name));
  INGOT_ASSIGN_OR_RETURN(const StartCheck check, CheckStart(config, model.text, model.shape.max_position_embeddings));
  const bool first = plan.snapshot == nullptr;
  if (first) {
    INGOT_ASSIGN_OR_RETURN(plan.snapshot, LoadSnapshot(args.checkpoint, 0));
  }

  const std::string path = std::filesystem::canonical(args.checkpoint);  // exists because it was read above
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, OpenEvaluation(config, path, scaffold));
  if (first) base::InitLogging("eval", config.log_level, dir.logs() + "/ingot.log");
  for (const std::string& warning : check.warnings) INGOT_LOG(warn, "warning: {}", warning);
  Evaluated evaluated{.scaffold = scaffold, .folder = dir.path(), .record = {}, .rows = {}, .earlier = {}};
  evaluated.record = {
      {"checkpoint", path}, {"eval/tasks", check.data.eval_tasks}, {"eval/tasks_left_out", check.data.eval_left_out}};
  if (!scaffold.empty()) evaluated.record["scaffold"] = scaffold;
  INGOT_RETURN_IF_ERROR(BeginEvaluation(dir, evaluated.record));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", effective));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, model.text));
  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = ReportDevice(device, metrics);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedRun> run, EmbeddedRun::Start(config, dir, model, 0, metrics));
  bool ended = false;
  INGOT_RETURN_IF_ERROR(EvaluateOnce("eval", config.eval, dir, *run, plan.snapshot,
                                     [&](const v1::EvalStatusResponse& result, datapool::Client& pool) {
                                       ended = true;
                                       evaluated.record["eval/reward_mean"] = result.reward_mean();
                                       evaluated.record["eval/avg_n"] = config.eval.avg_n;
                                       evaluated.record["eval/episodes"] = result.total();
                                       evaluated.record["eval/failed"] = result.failed();
                                       AddFigures(pool, plan, config.eval.success, evaluated);
                                       if (!args.json) PrintResult(result, check, config.eval.avg_n, evaluated);
                                       return WriteEvaluation(dir, evaluated.record);
                                     }));
  if (!ended) return std::nullopt;
  evaluated.earlier = EarlierEvaluations(dir, evaluated.record);
  return evaluated;
}

// A requirement's result for one scaffold.
struct Checked {
  std::string scaffold;
  view::RequirementResult result;
};

absl::StatusOr<std::vector<Checked>> CheckRequirements(const EvaluationPlan& plan, const std::vector<Evaluated>& all) {
  std::vector<Checked> checked;
  for (const Evaluated& one : all) {
    const view::Figures figures = FiguresIn(one.record);
    for (const view::Requirement& requirement : plan.requirements) {
      if (!requirement.scaffold.empty() && requirement.scaffold != one.scaffold) continue;
      INGOT_ASSIGN_OR_RETURN(view::RequirementResult result, view::CheckRequirement(requirement, figures, one.earlier));
      checked.push_back({one.scaffold, std::move(result)});
    }
  }
  return checked;
}

void PrintSummary(const EvaluateArgs& args, const std::vector<view::EvalRow>& rows,
                  const std::vector<Checked>& checked) {
  if (!rows.empty()) std::printf("%s", view::EvalTableText(rows, args.pass).c_str());
  for (const Checked& one : checked) {
    const std::string scaffold = one.scaffold.empty() ? "" : base::Printable(one.scaffold) + ": ";
    std::printf("%s%s\n", scaffold.c_str(), one.result.text.c_str());
  }
}

base::json::object SummaryJson(const std::vector<Evaluated>& all, const std::vector<view::EvalRow>& rows,
                               const std::vector<Checked>& checked) {
  base::json::array evaluations, requirements;
  for (const Evaluated& one : all) {
    evaluations.push_back(base::json::object{
        {"scaffold", base::Printable(one.scaffold)}, {"folder", one.folder}, {"figures", one.record}});
  }
  for (const Checked& one : checked) {
    requirements.push_back(base::json::object{
        {"scaffold", base::Printable(one.scaffold)}, {"met", one.result.met}, {"text", one.result.text}});
  }
  return {{"rows", view::EvalTableJson(rows)}, {"evaluations", evaluations}, {"requirements", requirements}};
}

absl::StatusOr<int> EvaluateOrError(const EvaluateArgs& args) {
  INGOT_ASSIGN_OR_RETURN(EvaluationPlan plan, PlanEvaluation(args));
  std::vector<Evaluated> all;
  std::vector<view::EvalRow> rows;
  for (const std::string& scaffold : plan.scaffolds) {
    INGOT_ASSIGN_OR_RETURN(std::optional<Evaluated> one, EvaluateScaffold(args, scaffold, plan));
    if (!one) return 1;
    rows.insert(rows.end(), one->rows.begin(), one->rows.end());
    all.push_back(*std::move(one));
  }
  INGOT_ASSIGN_OR_RETURN(const std::vector<Checked> checked, CheckRequirements(plan, all));
  if (args.json) {
    std::printf("%s\n", base::PrintJson(SummaryJson(all, rows, checked)).c_str());
  } else {
    PrintSummary(args, rows, checked);
  }
  return std::ranges::all_of(checked, [](const Checked& one) { return one.result.met; }) ? 0 : 1;
}

}  // namespace

int Evaluate(const EvaluateArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = EvaluateOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
