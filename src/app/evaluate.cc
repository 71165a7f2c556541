// `ingot eval`: the held-out tasks of a configuration on one checkpoint, nothing trained.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "app/commands.h"
#include "app/data_files.h"
#include "app/device.h"
#include "app/embedded.h"
#include "app/evaluation.h"
#include "app/process.h"
#include "app/snapshots.h"
#include "base/log.h"

namespace ingot::app {
namespace {

absl::StatusOr<int> EvaluateOrError(const std::string& checkpoint, const RunArgs& args) {
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  RunConfig& config = *loaded.config;
  if (config.eval.tasks.empty())
    return absl::InvalidArgumentError(absl::StrCat(args.config, ": eval.tasks is not set"));
  INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (config.agents.recipes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(args.config, ": agents.recipes is empty, and `ingot eval` starts the agents itself"));
  }
  INGOT_RETURN_IF_ERROR(CheckDataFiles(config));
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  config.model.path = checkpoint;
  config.model.chat_format.clear();  // what the checkpoint says
  config.scheduler.total_steps = 0;  // nothing but the evaluation
  config.rollout.threads = SplitCores(config).total;
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device.torch_name));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const weights::Snapshot> snapshot, LoadSnapshot(checkpoint, 0));

  const std::string name = config.name + "-eval";
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Open(config.root, name, IfExists::kReplace));
  base::InitLogging("eval", config.log_level, dir.logs() + "/ingot.log");
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  base::Metrics metrics;
  ReportDevice(device, metrics);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedRun> run, EmbeddedRun::Start(config, dir, model, 0, metrics));
  const TrainingSeams seams = run->Seams();
  INGOT_ASSIGN_OR_RETURN(Evaluations evaluations, Evaluations::Create(config.eval, 0, MostEvaluations(config),
                                                                      *seams.scheduler, *seams.publisher));
  INGOT_RETURN_IF_ERROR(seams.publisher->Publish(snapshot, /*retain=*/true).status());
  INGOT_RETURN_IF_ERROR(seams.scheduler->MarkVersionLive(0));
  INGOT_RETURN_IF_ERROR(evaluations.Start(0));
  INGOT_RETURN_IF_ERROR(run->StartAgents());
  bool evaluated = false;
  const Patience patience{.stop = &StopFlag()};
  INGOT_RETURN_IF_ERROR(evaluations.Finish(
      [&](int64_t, const v1::EvalStatusResponse& result) {
        evaluated = true;
        std::printf("eval/reward_mean %.4f  (avg@%d, %d episodes, %d failed)  trajectories: ingot inspect %s\n",
                    result.reward_mean(), config.eval.avg_n, result.total(), result.failed(), dir.path().c_str());
      },
      patience, [](const std::string& text) { std::printf("%s\n", text.c_str()); }));
  run->Stop();
  return evaluated ? 0 : 1;
}

}  // namespace

int Evaluate(const std::string& checkpoint, const RunArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = EvaluateOrError(checkpoint, args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
