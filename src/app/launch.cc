// `ingot launch` and `ingot status`: every role as its own process, of this machine or of a Slurm job.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/agents_substrate.h"
#include "app/commands.h"
#include "app/device.h"
#include "app/grpc_access.h"
#include "app/model_setup.h"
#include "app/process.h"
#include "app/resume_check.h"
#include "app/role_addresses.h"
#include "app/run_dir.h"
#include "app/run_registry.h"
#include "app/run_roles.h"
#include "app/run_secrets.h"
#include "app/run_status.h"
#include "app/slurm.h"
#include "app/start_check.h"
#include "app/supervisor.h"
#include "app/threads.h"
#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

absl::Status CheckPortFree(const std::string& key, const std::string& host, int port) {
  return FindPort(key, host, port).status();
}

// In the run's folder of sockets: answers `ingot status`.
constexpr char kLaunchSocket[] = "launch.sock";

// Checks that each role can listen at its port. A role would find out only in its own log, several times over, after
// the run has its folder.
absl::Status CheckPortsFree(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  if (cluster.trainer_ranks > 1) {
    INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.trainer_port", OwnHost(cluster), cluster.trainer_port));
  }
  if (TrainerAlone(config)) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.datapool_port", OwnHost(cluster), cluster.datapool_port));
  INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.scheduler_port", OwnHost(cluster), cluster.scheduler_port));
  INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.gateway_port", OwnHost(cluster), cluster.gateway_port));
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPortFree("cluster.rollout_port", OwnHost(cluster), RolePort(cluster, "rollout", i)));
  }
  for (int i = 0; config.metrics.port != 0 && i < 5 + cluster.rollout_engines; ++i) {
    INGOT_RETURN_IF_ERROR(CheckPortFree("metrics.port", config.metrics.host, config.metrics.port + i));
  }
  return CheckPortFree("http.port", config.http.host, config.http.port);  // 0 = any free one
}

RoleSpecs::Parts PartsOf(const RunConfig& config, const std::string& folder, const std::string& binary) {
  RoleSpecs::Parts parts;
  parts.folder = folder;
  parts.config = folder + "/config.yaml";  // the run's copy: the user's file may have changed when a role is restarted
  parts.binary = binary;
  parts.meeting_port = config.cluster.trainer_port;
  return parts;
}

std::vector<RoleSpec> SpecsOf(const RunConfig& config, const RoleSpecs& specs) {
  std::vector<RoleSpec> made;
  for (const RoleProcess& role : AllRoles(config)) made.push_back(specs.Spec(role));
  return made;
}

SlurmScript ScriptOf(const RunConfig& config, const std::string& folder, const std::string& binary) {
  SlurmScript script;
  script.name = config.name;
  script.folder = folder;
  script.binary = binary;
  script.groups = config.cluster.groups;
  script.options = config.cluster.slurm;
  script.drain_s = config.cluster.trainer_stop_s;
  return script;
}

// Nothing is started, and no file is written.
int PrintPlan(const RunConfig& config, const std::string& binary) {
  const std::string folder = absl::StrCat(config.root, "/", config.name);
  if (config.cluster.launcher == LauncherKind::kSlurm) {
    std::printf("%s", RenderSlurm(ScriptOf(config, folder, binary)).c_str());
    return 0;
  }
  const RoleSpecs specs(config, PartsOf(config, folder, binary));
  const std::vector<RoleSpec> made = SpecsOf(config, specs);
  std::printf("run '%s' in %s: %d processes on this machine\n%s", config.name.c_str(), folder.c_str(),
              static_cast<int>(made.size()), DescribeSpecs(made).c_str());
  return 0;
}

absl::StatusOr<int> LaunchHere(const RunArgs& args, const LoadedConfig& loaded, const std::string& binary,
                               const std::vector<std::string>& doubts) {
  const RunConfig& config = *loaded.config;
  const ClusterOptions& cluster = config.cluster;
  INGOT_RETURN_IF_ERROR(CheckPortsFree(config));
  INGOT_RETURN_IF_ERROR(CheckRunPool(config, args.resume));
  INGOT_ASSIGN_OR_RETURN(RunSecrets secrets, MakeRunSecrets(config));
  INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(cluster, secrets.token));
  if (!TrainerAlone(config)) INGOT_RETURN_IF_ERROR(CheckReach(AtHost(cluster, 0), access));
  INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                         RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
  base::InitLogging("launch", config.log_level, dir.logs() + "/launch.log");
  for (const std::string& doubt : doubts) INGOT_LOG(warn, "doubt: {}", doubt);
  if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
  INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));

  std::unique_ptr<RunRegistry> registry;
  if (!TrainerAlone(config)) {
    INGOT_ASSIGN_OR_RETURN(registry, RunRegistry::Open(config, dir.path(), access));
    INGOT_RETURN_IF_ERROR(registry->ClaimRun());
  }
  RoleSpecs::Parts parts = PartsOf(config, dir.path(), binary);
  parts.existed = dir.existed();
  parts.secrets = std::move(secrets);
  if (cluster.trainer_ranks > 1) {
    INGOT_ASSIGN_OR_RETURN(parts.meeting_port,
                           FindPort("cluster.trainer_port", OwnHost(cluster), cluster.trainer_port));
  }
  const RoleSpecs specs(config, std::move(parts));
  const std::vector<RoleSpec> made = SpecsOf(config, specs);
  // Printed and, where sandbox.require asks for more, refused here: the agents' role would only end again and again.
  const bool agents = std::any_of(made.begin(), made.end(), [](const auto& spec) { return spec.name == "agents"; });
  if (agents) INGOT_RETURN_IF_ERROR(MakeAgentsSubstrate(config, dir).status());
  SupervisorOptions options;
  options.max_restarts = cluster.max_restarts;
  options.min_members = cluster.min_trainer_ranks;
  Supervisor supervisor(options);
  for (const RoleSpec& spec : made) INGOT_RETURN_IF_ERROR(supervisor.Start(spec));
  std::unique_ptr<StatusEndpoint> status;
  if (registry != nullptr) {
    auto started = StatusEndpoint::Start(absl::StrCat(dir.sockets(), "/", kLaunchSocket),
                                         [&] { return AskRoles(*registry, cluster.rollout_engines, access); });
    if (!started.ok()) INGOT_LOG(warn, "`ingot status` will not answer: {}", std::string(started.status().message()));
    if (started.ok()) status = *std::move(started);
  }
  const std::string asked =
      registry == nullptr ? "" : absl::StrCat("; `ingot status ", args.config, "` prints their state");
  std::printf("%s: %d processes; logs %s%s\n", config.name.c_str(), static_cast<int>(made.size()), dir.logs().c_str(),
              asked.c_str());
  return supervisor.Run(StopFlag(), [&](const std::string& line) {
    INGOT_LOG(info, "{}", line);
    std::printf("[%s] %s\n", config.name.c_str(), base::Printable(line).c_str());
  });
}

absl::StatusOr<int> LaunchJob(const RunArgs& args, const LoadedConfig& loaded, const std::string& binary) {
  const RunConfig& config = *loaded.config;
  if (config.cluster.token_file.empty() && !TrainerAlone(config)) {
    return absl::InvalidArgumentError(
        "the nodes of a Slurm job share the run's token: name a file with it, on a file system that all see, in "
        "cluster.token_file (`openssl rand -hex 32 > FILE; chmod 600 FILE`)");
  }
  std::string folder;
  {
    // The node with the trainer holds the folder while the job runs.
    INGOT_ASSIGN_OR_RETURN(const RunDir dir,
                           RunDir::Open(config.root, config.name, args.resume ? IfExists::kResume : config.if_exists));
    if (dir.existed()) INGOT_RETURN_IF_ERROR(CheckResumable(loaded, dir));
    INGOT_RETURN_IF_ERROR(dir.WriteFile("config.yaml", loaded.schema.EffectiveYaml()));
    INGOT_RETURN_IF_ERROR(dir.WriteFile("launch.sbatch", RenderSlurm(ScriptOf(config, dir.path(), binary))));
    folder = dir.path();
  }
  SlurmWatch watch;
  INGOT_ASSIGN_OR_RETURN(watch.job, SubmitSlurm(folder + "/launch.sbatch", watch.run));
  watch.exit_file = folder + "/launch.exit";
  watch.on_status = [&](const std::string& line) {
    std::printf("[%s] %s\n", config.name.c_str(), base::Printable(line).c_str());
  };
  std::printf("%s: job %s of Slurm; output %s/logs/slurm.log\n", config.name.c_str(), watch.job.c_str(),
              folder.c_str());
  return WatchSlurm(watch, StopFlag());
}

absl::StatusOr<int> LaunchOrError(const LaunchArgs& args) {
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.run.config, args.run.overrides));
  const RunConfig& config = *loaded.config;
  const bool here = config.cluster.launcher == LauncherKind::kLocal;
  if (here) INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOfLaunch(config)));
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model));
  INGOT_ASSIGN_OR_RETURN(const StartCheck check, CheckStart(config, model.text, model.shape.max_position_embeddings));
  INGOT_RETURN_IF_ERROR(CheckGroups(config));
  if (!here && config.cluster.groups.empty()) {
    return absl::InvalidArgumentError(
        "cluster.launcher is slurm: cluster.groups must tell which nodes run which roles");
  }
  // Only `cuda` can fail; the roles that compute open the device again.
  if (here && config.device == "cuda") INGOT_RETURN_IF_ERROR(OpenDevice(config.device).status());
  INGOT_ASSIGN_OR_RETURN(const std::string binary, OwnBinary());
  if (args.dry_run) return PrintPlan(config, binary);
  return here ? LaunchHere(args.run, loaded, binary, check.doubts) : LaunchJob(args.run, loaded, binary);
}

// Why no role of the run answers, and what to do: one line.
std::string DescribeNoRun(const RunConfig& config, const std::string& file) {
  const std::string folder = absl::StrCat(config.root, "/", config.name);
  const std::string none = absl::StrCat("none of the roles of run '", config.name, "' answers: ");
  const absl::StatusOr<bool> held = RunDir::IsHeld(config.root, config.name);
  if (!held.ok()) {
    return absl::StrCat(none, held.status().message(), "; `ingot launch ", file, "` starts the run");
  }
  if (!*held) {
    return absl::StrCat(none, "no process holds ", folder, "; `ingot launch ", file, " --resume` continues the run");
  }
  return absl::StrCat(
      none, "a process holds ", folder,
      ", and its roles are no processes of their own (ingot train), or are about to start; its terminal and ", folder,
      "/logs tell its state");
}

absl::StatusOr<int> StatusOrError(const RunArgs& args) {
  RunSecrets secrets;
  if (args.token_fd >= 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, ReadRunSecrets(args.token_fd));
  }
  INGOT_ASSIGN_OR_RETURN(const LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  if (args.token_fd < 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, FindRunSecrets(config));
  }
  if (!secrets.token.empty()) {
    INGOT_ASSIGN_OR_RETURN(const RpcAccess access, AccessOf(config.cluster, std::move(secrets.token)));
    const bool local = config.cluster.registry.kind == RegistryKind::kLocal;
    if (local && !RunDir::IsHeld(config.root, config.name).ok()) {
      return absl::UnavailableError(DescribeNoRun(config, args.config));
    }
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<RunRegistry> registry,
                           RunRegistry::Open(config, absl::StrCat(config.root, "/", config.name), access));
    const std::vector<RoleStatus> roles = AskRoles(*registry, config.cluster.rollout_engines, access);
    const auto is_silent = [](const RoleStatus& role) {
      return absl::IsUnavailable(role.state.status()) || absl::IsDeadlineExceeded(role.state.status());
    };
    if (std::all_of(roles.begin(), roles.end(), is_silent)) {
      return absl::UnavailableError(DescribeNoRun(config, args.config));
    }
    std::printf("%s", FormatRoles(roles).c_str());
    return AllAnswer(roles) ? 0 : 1;
  }
  const std::string folder = absl::StrCat(config.root, "/", config.name);
  const absl::StatusOr<LaunchedStatus> launched = AskLauncher(absl::StrCat(folder, "/sockets/", kLaunchSocket));
  if (!launched.ok()) {
    return absl::UnavailableError(absl::StrCat(DescribeNoRun(config, args.config),
                                               "; roles that were started by hand are asked with cluster.token_file"));
  }
  std::printf("%s", launched->lines.c_str());
  return launched->all_answer ? 0 : 1;
}

}  // namespace

int Launch(const LaunchArgs& args) {
  HandleSignals();
  const absl::StatusOr<int> code = LaunchOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

int ShowStatus(const RunArgs& args) {
  const absl::StatusOr<int> code = StatusOrError(args);
  return code.ok() ? *code : Fail(code.status());
}

}  // namespace ingot::app
