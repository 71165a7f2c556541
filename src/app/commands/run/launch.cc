#include "app/commands/run/launch.h"

#include <cstdio>
#include <string>

#include "app/checks/run_check.h"
#include "app/cluster/launchers/slurm.h"
#include "app/cluster/status/role_waits.h"
#include "app/commands/run/job_submission.h"
#include "app/commands/run/local_launcher.h"
#include "app/commands/run/run_command.h"
#include "app/run/process.h"
#include "app/run/run_config.h"
#include "base/log.h"

namespace ingot::app {
namespace {

absl::StatusOr<int> LaunchOrError(const LaunchArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  const bool here = config.cluster.launcher == LauncherKind::kLocal;
  INGOT_ASSIGN_OR_RETURN(const RunCheck check,
                         CheckRun(config, args.dry_run ? RequestedBy::kDryRun : RequestedBy::kLaunch));
  loaded.config->trainer.custom.graph = check.loss_graph;
  INGOT_ASSIGN_OR_RETURN(const std::string binary, OwnBinary());
  base::InitLogging("launch", "warn", "");  // until there is a folder; PrintLine prints everything else
  RoleWaits waits;
  waits.Follow(nullptr, [&config](const std::string& reported) {
    PrintLine(config, absl::StrCat("the launcher waits for ", reported.empty() ? "nothing now" : reported));
  });
  waits.Start();
  JobPlan plan;
  if (here) {
    plan.launcher = MakeLocalLauncher(args.run, loaded, binary, check.start.warnings, check.model, waits);
  } else {
    plan = PlanJob(loaded, binary);
  }
  if (args.dry_run) {
    INGOT_ASSIGN_OR_RETURN(const std::string text, plan.launcher->Plan());
    std::printf("%s", text.c_str());
    return 0;
  }
  if (config.cluster.launcher == LauncherKind::kSlurm) {
    INGOT_RETURN_IF_ERROR(CheckSlurm(config.cluster.groups, RunHere));
  }
  INGOT_RETURN_IF_ERROR(here ? plan.launcher->Start() : SubmitJob(args.run, loaded, check.model.text, plan));
  return plan.launcher->Watch(StopFlag());
}

}  // namespace

int Launch(const LaunchArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = LaunchOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
