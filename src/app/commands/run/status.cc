#include "app/commands/run/status.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/checks/nodes_check.h"
#include "app/cluster/access/grpc_access.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/status/run_status.h"
#include "app/cluster/status/status_endpoint.h"
#include "app/commands/run/job_submission.h"
#include "app/commands/run/local_launcher.h"
#include "app/commands/run/run_command.h"
#include "app/run/process.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/terminal/progress.h"
#include "base/retry.h"

namespace ingot::app {
namespace {

// Returns one line that explains why none of the run's roles answers and what to do. Appends `more` unless the run has
// ended.
std::string DescribeNoRun(const LoadedConfig& loaded, const RunArgs& args, const std::string& more = "") {
  const RunConfig& config = *loaded.config;
  const std::string folder = FolderOf(config);
  const std::string none = absl::StrCat("no role of run '", config.name, "' responds: ");
  if (config.cluster.launcher != LauncherKind::kLocal && CheckNodes(config).ok()) {
    const absl::StatusOr<std::string> present = PlanJob(loaded, "").launcher->Present();
    if (present.ok() && !present->empty()) return absl::StrCat(none, *present, more);
  }
  const absl::StatusOr<bool> held = RunDir::IsHeld(config.root, config.name);
  if (!held.ok()) {
    return absl::StrCat(none, held.status().message(), "; `", CommandOf("launch", args), "` starts the run", more);
  }
  if (!*held) {
    const absl::StatusOr<LoadedConfig> kept = LoadRunConfig(folder + "/config.yaml", {});
    const std::string ended = DescribeEnd(folder, kept.ok() ? *kept->config : config);
    if (!ended.empty()) return ended;
    return absl::StrCat(none, "no process holds ", folder, "; `", CommandIn(folder, CommandOf("launch", args)),
                        " --resume` continues the run", more);
  }
  return absl::StrCat(none, "a process holds ", folder,
                      ", but its roles share one process (ingot train) or are about to start; see its terminal and ",
                      folder, "/logs", more);
}

absl::StatusOr<LaunchedStatus> StatusOrError(const RunArgs& args, bool json) {
  const Underway asking("status: asking the roles");
  RunSecrets secrets;
  if (args.token_fd >= 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, ReadRunSecrets(args.token_fd));
  }
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  if (args.token_fd < 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, FindRunSecrets(config));
  }
  // A launcher on this machine can report which roles do not answer and why. It is queried at the same time as the
  // roles.
  const std::string folder = FolderOf(config);
  std::future<absl::StatusOr<LaunchedStatus>> asked =
      std::async(std::launch::async, [&folder, json] { return AskLauncher(LaunchSocket(folder), json); });
  if (!secrets.token.empty()) {
    INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config.cluster, std::move(secrets.token)));
    const bool local = config.cluster.registry.kind == RegistryKind::kLocal;
    if (local && !RunDir::IsHeld(config.root, config.name).ok()) {
      return absl::UnavailableError(DescribeNoRun(loaded, args));
    }
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRegistry> registry, RunRegistry::Open(config, folder, access));
    std::vector<RoleStatus> roles = AskRoles(registry->Places(), registry->Describe(), config.cluster, access);
    for (RoleStatus& node : AskNodes(*registry, config.cluster.groups)) roles.push_back(std::move(node));
    const auto is_unresponsive = [](const RoleStatus& role) { return base::MayAnswerLater(role.state.status()); };
    const absl::StatusOr<LaunchedStatus> launched = asked.get();
    const bool rejected = std::any_of(roles.begin(), roles.end(), [](const RoleStatus& role) {
      return absl::IsUnauthenticated(role.state.status());  // its message explains what to fix
    });
    if (launched.ok() && !rejected) return *launched;
    if (absl::IsDeadlineExceeded(launched.status())) roles.push_back({"launch", "-", launched.status()});
    if (std::all_of(roles.begin(), roles.end(), is_unresponsive)) {
      return absl::UnavailableError(DescribeNoRun(loaded, args));
    }
    return LaunchedStatus{.all_answer = AllAnswer(roles), .lines = json ? JsonOfRoles(roles) : FormatRoles(roles)};
  }
  const absl::StatusOr<LaunchedStatus> launched = asked.get();
  if (launched.ok()) return *launched;
  if (absl::IsDeadlineExceeded(launched.status())) return launched.status();
  return absl::UnavailableError(
      DescribeNoRun(loaded, args, "; to reach roles that you started yourself, set cluster.token_file"));
}

}  // namespace

int ShowStatus(const StatusArgs& args) {
  const absl::StatusOr<LaunchedStatus> status = StatusOrError(args.run, args.json);
  if (!status.ok()) return Fail(status.status());
  std::printf("%s", status->lines.c_str());
  return status->all_answer ? 0 : 1;
}

}  // namespace ingot::app
