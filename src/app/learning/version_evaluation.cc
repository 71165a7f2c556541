#include "app/learning/version_evaluation.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "app/models/kept_tokenizer.h"
#include "app/models/model_setup.h"
#include "app/models/snapshots.h"
#include "app/roles/embedded.h"
#include "app/roles/evaluate_once.h"
#include "base/metrics.h"
#include "view/evaluation/eval_figures.h"

namespace ingot::app {

RunConfig EvaluationConfig(const RunConfig& config, const std::string& run_path, const std::string& name) {
  RunConfig evaluation = config;
  evaluation.root = run_path + "/evaluations";
  evaluation.name = name;
  evaluation.learn = {};
  evaluation.http.port = 0;
  evaluation.metrics.port = 0;
  // The scheduler reads training tasks, and admits none of them.
  if (evaluation.tasks.empty()) evaluation.tasks = config.eval.Files().begin()->second.front();
  return evaluation;
}

absl::StatusOr<view::Figures> EvaluateVersion(const RunConfig& config, const RunDir& run, const std::string& folder,
                                              const std::string& name, const std::string& device) {
  RunConfig evaluation = EvaluationConfig(config, run.path(), name);
  UseModelFolder(folder, evaluation);
  const std::string effective = BindSchema(evaluation).EffectiveYaml();
  evaluation.scheduler.total_steps = 0;  // only evaluations; not in config.yaml, which would not load with it
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(evaluation.model, device));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> snapshot, LoadSnapshot(folder, 0));
  std::error_code ignored;
  std::filesystem::remove_all(absl::StrCat(evaluation.root, "/", name), ignored);
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Open(evaluation.root, name, IfExists::kFail));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", effective));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), folder, model.text));
  base::Metrics metrics(evaluation.metrics.max_labels);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedRun> embedded,
                         EmbeddedRun::Start(evaluation, dir, model, 0, metrics));
  view::Figures figures;
  INGOT_RETURN_IF_ERROR(EvaluateOnce("evaluation", evaluation.eval, dir, *embedded, snapshot,
                                     [&](const v1::EvalStatusResponse& result, datapool::Client& pool) -> absl::Status {
                                       INGOT_ASSIGN_OR_RETURN(figures,
                                                              view::EvalFiguresOf(pool, 0, evaluation.eval.success));
                                       figures["eval/reward_mean"] = result.reward_mean();
                                       figures["eval/episodes"] = result.total();
                                       figures["eval/failed"] = result.failed();
                                       return absl::OkStatus();
                                     }));
  if (figures.empty()) return absl::CancelledError("the evaluation was stopped");
  return figures;
}

}  // namespace ingot::app
