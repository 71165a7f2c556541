#include "app/commands/run/job_submission.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "app/cluster/launchers/kubernetes_launcher.h"
#include "app/cluster/launchers/slurm.h"
#include "app/commands/run/run_command.h"
#include "app/models/kept_tokenizer.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/resume_check.h"
#include "app/run/run_dir.h"

namespace ingot::app {
namespace {

// Returns the run's folder, with the job's file. A queued job does not hold the folder, so its launcher is
// queried.
absl::StatusOr<RunDir> PrepareJob(const RunArgs& args, const LoadedConfig& loaded, const TextParts& text,
                                  JobPlan& job) {
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const std::string present, job.launcher->Present());
  if (!present.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run '", config.name, "' is already launched: ", present, ", or choose another run.name"));
  }
  INGOT_ASSIGN_OR_RETURN(const std::string file, job.launcher->Plan());
  INGOT_ASSIGN_OR_RETURN(
      RunDir dir, RunDir::OpenForJob(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
  INGOT_RETURN_IF_ERROR(KeepChatTemplate(config.model, dir));
  INGOT_RETURN_IF_ERROR(KeepLoss(config.trainer, dir));
  INGOT_RETURN_IF_ERROR(KeepTokenizer(dir.path(), config.model.path, text));
  INGOT_RETURN_IF_ERROR(KeepCommand(dir, CommandOf("launch", args)));
  INGOT_RETURN_IF_ERROR(dir.WriteFile(job.file, file));
  return dir;
}

// Called after a submission failed with `failed`. Restores the run that the job would have replaced, unless part of the
// job may exist. An error from sbatch or kubectl does not rule that out, because a busy server's response can be lost.
absl::Status PutReplacedBack(const absl::Status& failed, RunLauncher& launcher, RunDir& dir) {
  constexpr auto kLate = std::chrono::seconds(3);  // a job whose response was lost may be listed a moment later
  if (!dir.replaces()) return failed;
  absl::StatusOr<std::string> present = launcher.Present();
  if (present.ok() && present->empty()) {
    std::this_thread::sleep_for(kLate);
    present = launcher.Present();
  }
  absl::Status back = present.status();
  if (present.ok()) back = present->empty() ? dir.TakeBack() : absl::FailedPreconditionError(*present);
  if (back.ok()) return failed;  // the destructor of `dir` restores it
  return absl::Status(
      failed.code(),
      absl::StrCat(failed.message(), "; the run that the job would have replaced is kept in ", dir.replaced(),
                   ", because part of the job may exist (", back.message(),
                   "): once the job is gone, the next `ingot launch` restores the run, unless the new run has begun"));
}

}  // namespace

JobPlan PlanJob(const LoadedConfig& loaded, const std::string& binary) {
  const RunConfig& config = *loaded.config;
  JobOptions options;
  options.on_status = [&config](const std::string& line) { PrintLine(config, line); };
  if (config.cluster.launcher == LauncherKind::kKubernetes) {
    return {std::make_unique<KubernetesLauncher>(config, loaded.schema.EffectiveYaml(),
                                                 FolderOf(config) + "/kubernetes.yaml", std::move(options)),
            "kubernetes.yaml"};
  }
  SlurmScript script;
  script.name = config.name;
  script.folder = FolderOf(config);
  script.binary = binary;
  script.groups = config.cluster.groups;
  script.options = config.cluster.slurm;
  script.drain_s = config.cluster.trainer_stop_s;
  return {std::make_unique<SlurmLauncher>(std::move(script), std::move(options)), "launch.sbatch"};
}

absl::Status SubmitJob(const RunArgs& args, const LoadedConfig& loaded, const TextParts& text, JobPlan& job) {
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const LaunchLock lock, LaunchLock::Acquire(config.root, config.name));
  INGOT_ASSIGN_OR_RETURN(RunDir dir, PrepareJob(args, loaded, text, job));
  INGOT_RETURN_IF_ERROR(dir.HandOver());
  const absl::Status started = job.launcher->Start();
  if (!started.ok()) return PutReplacedBack(started, *job.launcher, dir);
  std::printf("%s: submitted; the nodes' output is in %s/logs\n", config.name.c_str(), FolderOf(config).c_str());
  if (const absl::Status dropped = dir.DropReplaced(); !dropped.ok()) {
    PrintLine(config, absl::StrCat("the replaced run could not be removed: ", dropped.message()));
  }
  return absl::OkStatus();
}

}  // namespace ingot::app
