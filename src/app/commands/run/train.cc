// Implements `ingot train`, `ingot config`, `ingot doctor`, and `ingot init`.
#include "app/commands/run/train.h"

#include <algorithm>
#include <cerrno>  // program_invocation_name
#include <cstdio>
#include <optional>
#include <vector>

#include "app/checks/doctor.h"
#include "app/checks/port_check.h"
#include "app/checks/run_check.h"
#include "app/commands/run/init.h"
#include "app/commands/run/run_command.h"
#include "app/models/device.h"
#include "app/models/kept_tokenizer.h"
#include "app/record/run_view.h"
#include "app/roles/embedded.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/process.h"
#include "app/run/resume_check.h"
#include "app/run/resume_point.h"
#include "app/run/run_args.h"
#include "app/terminal/progress.h"
#include "app/training/supervised.h"
#include "base/log.h"
#include "base/printable.h"
#include "kernels/torch/exact.h"
#include "trainer/pass/tensor_memory.h"

namespace ingot::app {
namespace {

// Runs a run without tasks. It has no gateway and no agents.
absl::Status TrainWithoutAgents(const LoadedConfig& loaded, const RunDir& dir, const ModelSetup& model, bool resume,
                                base::Metrics& metrics) {
  return TrainInView(loaded, dir, model.text.tokenizer, kSupervisedHasNoPool, metrics, [&] {
    return TrainSupervised(*loaded.config, dir, model, /*ranks=*/nullptr, resume, metrics, StopFlag());
  });
}

// Prints the plan of the GPU's memory before anything large is allocated.
void ReportPlans(const std::vector<GpuPlan>& plans) {
  for (const auto& [what, plan] : plans) {
    std::printf("memory plan for %s: %s\n", what.c_str(), PlanLine(plan).c_str());
    INGOT_LOG(info, "memory plan for {}:\n{}", what, PlanTable(plan));
  }
  std::fflush(stdout);
}

// Called before the run opens its pool, because a database pool cannot be restored once a new run has taken it over.
absl::Status CheckPortsFree(const RunConfig& config) {
  if (config.metrics.port != 0) {
    INGOT_RETURN_IF_ERROR(CheckPort("metrics.port", config.metrics.host, config.metrics.port));
  }
  return CheckPort("http.port", config.http.host, config.http.port);
}

absl::StatusOr<int> TrainOrError(const RunArgs& args) {
  trainer::KeepTensorMemory();
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  kernels::SetDeviceNumerics(config.numerics);
  if (config.cluster.trainer_ranks > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.trainer_ranks is ", config.cluster.trainer_ranks,
        ": `ingot train` is one process and trains on one rank; use `ingot launch`, or --set cluster.trainer_ranks=1"));
  }
  INGOT_ASSIGN_OR_RETURN(const RunCheck check, CheckRun(config, RequestedBy::kTrain));
  loaded.config->trainer.custom.graph = check.loss_graph;
  const ModelSetup& model = check.model;
  INGOT_RETURN_IF_ERROR(CheckRunPool(config, args.resume));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  const bool resume = dir.existed();
  base::InitLogging("ingot", config.log_level, dir.logs() + "/ingot.log");
  for (const std::string& warning : check.start.warnings) INGOT_LOG(warn, "warning: {}", warning);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  if (config.tasks.empty()) {
    INGOT_ASSIGN_OR_RETURN(const bool done, SupervisedIsDone(dir));
    if (done) return 0;
  }
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepLoss(config.trainer, dir));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, model.text));
  const std::string command = CommandOf("train", args);
  INGOT_RETURN_IF_ERROR(KeepCommand(dir, command));
  INGOT_LOG(info, "effective configuration:\n{}", loaded.schema.EffectiveYaml());

  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = ReportDevice(check.device, metrics);
  ReportPlans(check.plans);
  if (config.tasks.empty()) {
    INGOT_RETURN_IF_ERROR(WithNext(TrainWithoutAgents(loaded, dir, model, resume, metrics), dir, command));
    PrintNextCommands(dir.path());
    return 0;
  }
  INGOT_RETURN_IF_ERROR(CheckPortsFree(config));
  INGOT_ASSIGN_OR_RETURN(const scheduler::ResumePoint resume_point, ResumePointOf(dir, resume));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<EmbeddedRun> run,
                         EmbeddedRun::Start(config, dir, model, resume_point, metrics));
  std::printf("%s: %s\ngateway %s  metrics %s  run folder %s\n", config.name.c_str(),
              DescribeCores(SplitCores(config)).c_str(), run->url().c_str(), run->metrics_url().c_str(),
              dir.path().c_str());
  if (config.agents.recipes.empty()) std::printf("%s\n", DescribeEntrance(run->url()).c_str());
  std::optional<RunView> view;
  INGOT_ASSIGN_OR_RETURN(view, ServeRunView(loaded, dir, run->clients(), model.text.tokenizer));
  if (view->page != nullptr) std::printf("page %s\n", view->page->NewLink().c_str());
  const absl::StatusOr<bool> goal_met =
      RunTraining(config, dir, model, run->PartsOfTrainer(), resume, metrics, StopFlag());
  INGOT_RETURN_IF_ERROR(WithNext(goal_met.status(), dir, command));
  if (view->follower != nullptr) view->follower->End(/*ok=*/true);
  view.reset();  // destroyed before the roles that it shows
  run->Stop();
  PrintNextCommands(dir.path());
  return *goal_met ? 0 : 1;
}

// Loads the configuration for a machine with GPUs, where `device: auto` means cuda.
absl::StatusOr<LoadedConfig> LoadForGpus(const RunArgs& args, const std::string& gpus) {
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  if (loaded.config->device == "cuda") return loaded;
  if (loaded.config->device == "cpu") {
    return absl::InvalidArgumentError(absl::StrCat("--device is ", gpus, ", but device is cpu in ", args.config,
                                                   ": add --set device=cuda, or leave out --device"));
  }
  std::vector<std::string> overrides = args.overrides;
  overrides.emplace_back("device=cuda");
  return LoadRunConfig(args.config, overrides);
}

absl::Status CheckConfig(const RunArgs& args, const std::string& gpus) {
  std::optional<Underway> reading("config check: reading " + args.config);
  std::optional<GpuMachine> machine;
  if (!gpus.empty()) {
    INGOT_ASSIGN_OR_RETURN(machine, ParseGpus(gpus));
  }
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded,
                         machine.has_value() ? LoadForGpus(args, gpus) : LoadRunConfig(args.config, args.overrides));
  reading.reset();
  INGOT_ASSIGN_OR_RETURN(const RunCheck check, CheckRun(*loaded.config, RequestedBy::kConfigCheck, machine));
  std::printf("%s", loaded.schema.EffectiveYaml().c_str());
  std::fflush(stdout);
  // Keeps stdout loadable as a configuration.
  for (const std::string& warning : check.start.warnings)
    std::fprintf(stderr, "warning: %s\n", base::Printable(warning).c_str());
  for (const std::string& note : check.notes) std::fprintf(stderr, "note: %s\n", base::Printable(note).c_str());
  for (const GpuPlan& plan : check.plans) {
    std::fprintf(stderr, "memory plan for %s%s:\n%s", plan.what.c_str(), gpus.empty() ? "" : (" on " + gpus).c_str(),
                 PlanTable(plan.plan).c_str());
  }
  std::fprintf(stderr, "%s\n", DescribeCheck(check.start).c_str());
  return absl::OkStatus();
}

// Without a file, the overrides apply to the defaults.
absl::StatusOr<std::vector<Finding>> ExamineFor(const RunArgs& args) {
  const Underway examining("doctor: checking this machine");
  if (!args.config.empty()) {
    INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
    return Examine(*loaded.config);
  }
  RunConfig config;
  base::Schema schema = BindSchema(config);
  for (const std::string& assignment : args.overrides) INGOT_RETURN_IF_ERROR(schema.Set(assignment));
  return Examine(config);
}

}  // namespace

int Train(const RunArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = TrainOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

int ConfigCheck(const RunArgs& args, const std::string& gpus) {
  const absl::Status checked = CheckConfig(args, gpus);
  return checked.ok() ? 0 : Fail(checked);
}

int ConfigExplain(const std::string& key) {
  RunConfig config;
  const absl::StatusOr<std::string> text = BindSchema(config).Explain(key);
  if (!text.ok()) return Fail(text.status());
  std::printf("%s", text->c_str());
  return 0;
}

int ConfigSchema() {
  RunConfig config;
  std::printf("%s\n", BindSchema(config).JsonSchema().c_str());
  return 0;
}

int Doctor(const RunArgs& args) {
  const absl::StatusOr<std::vector<Finding>> findings = ExamineFor(args);
  if (!findings.ok()) return Fail(findings.status());
  std::printf("%s", FormatFindings(*findings).c_str());
  const bool broken = std::any_of(findings->begin(), findings->end(),
                                  [](const Finding& finding) { return finding.health == Health::kBroken; });
  return broken ? 1 : 0;
}

int Init(const std::string& folder, InitReward reward) {
  if (const absl::Status written = WriteInitFiles(folder, reward); !written.ok()) return Fail(written);
  std::printf("%s", InitHint(folder, program_invocation_name).c_str());
  return 0;
}

}  // namespace ingot::app
