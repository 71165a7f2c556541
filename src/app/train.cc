// `ingot train` and `ingot config`.
#include <cstdio>

#include "app/commands.h"
#include "app/data_files.h"
#include "app/device.h"
#include "app/embedded.h"
#include "app/process.h"
#include "app/resume_check.h"
#include "app/run_metrics.h"
#include "app/supervised.h"
#include "base/log.h"
#include "trainer/checkpoint.h"
#include "trainer/tensor_memory.h"

namespace ingot::app {
namespace {

absl::StatusOr<int> TrainOrError(const RunArgs& args) {
  trainer::KeepTensorMemory();
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  if (config.cluster.trainer_ranks > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.trainer_ranks is ", config.cluster.trainer_ranks,
        ": `ingot train` is one process and trains on one rank; use `ingot launch`, or --set cluster.trainer_ranks=1"));
  }
  INGOT_RETURN_IF_ERROR(CheckDataFiles(config));
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, OpenDevice(config.device));
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, device.torch_name));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  const bool resume = dir.existed();
  base::InitLogging("ingot", config.log_level, dir.logs() + "/ingot.log");
  for (const std::string& doubt : Doubts(config)) INGOT_LOG(warn, "{}", doubt);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  if (config.tasks.empty()) {
    INGOT_ASSIGN_OR_RETURN(const bool done, SupervisedIsDone(dir));
    if (done) return 0;
  }
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  INGOT_LOG(info, "effective configuration:\n{}", loaded.schema.EffectiveYaml());

  base::Metrics metrics(config.metrics.max_labels);
  ReportDevice(device, metrics);
  if (config.tasks.empty()) {
    INGOT_RETURN_IF_ERROR(TrainSupervised(loaded, dir, model, /*ranks=*/nullptr, resume, metrics, StopFlag()));
    return 0;
  }
  INGOT_ASSIGN_OR_RETURN(const scheduler::ResumePoint resume_point, ResumePointOf(dir, resume));
  // Before the engine's cache is made, which may take all memory that there is.
  INGOT_RETURN_IF_ERROR(trainer::Trainer::CheckFits(config.trainer, model.shape, at::Device(model.device)));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<EmbeddedRun> run,
                         EmbeddedRun::Start(config, dir, model, resume_point, metrics));
  INGOT_ASSIGN_OR_RETURN(
      auto endpoints, ServeMetrics(config, dir, "ingot", config.metrics.port, [&run] { return run->MetricsText(); }));
  std::printf("%s: %s\ngateway %s  metrics %s  run folder %s\n", config.name.c_str(),
              DescribeCores(SplitCores(config)).c_str(), run->url().c_str(),
              endpoints.empty() ? "none" : endpoints.back()->url().c_str(), dir.path().c_str());
  if (config.agents.recipes.empty()) std::printf("%s\n", DescribeEntrance(run->url()).c_str());
  INGOT_ASSIGN_OR_RETURN(const TrainingResult result,
                         RunTraining(loaded, dir, run->Seams(), resume, metrics, StopFlag()));
  endpoints.clear();  // before the metrics that they show
  run->Stop();
  return result.goal_met ? 0 : 1;
}

}  // namespace

absl::StatusOr<scheduler::ResumePoint> ResumePointOf(const RunDir& dir, bool resume) {
  if (!resume) return scheduler::ResumePoint(0);
  const absl::StatusOr<trainer::CheckpointInfo> latest = trainer::LatestCheckpoint(dir.checkpoints());
  if (latest.ok()) return scheduler::ResumePoint(latest->step, latest->next_group);
  if (latest.status().code() == absl::StatusCode::kNotFound) return scheduler::ResumePoint(0);
  return latest.status();
}

int Train(const RunArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = TrainOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

int ConfigCheck(const RunArgs& args) {
  const absl::StatusOr<LoadedConfig> loaded = LoadRunConfig(args.config, args.overrides);
  if (!loaded.ok()) return Fail(loaded.status());
  if (const absl::Status status = CheckDataFiles(*loaded->config); !status.ok()) return Fail(status);
  for (const std::string& doubt : Doubts(*loaded->config)) std::fprintf(stderr, "warning: %s\n", doubt.c_str());
  std::printf("%s", loaded->schema.EffectiveYaml().c_str());
  return 0;
}

int ConfigExplain(const std::string& key) {
  RunConfig config;
  const absl::StatusOr<std::string> text = BindSchema(config).Explain(key);
  if (!text.ok()) return Fail(text.status());
  std::printf("%s", text->c_str());
  return 0;
}

}  // namespace ingot::app
