// `ingot ROLE`: runs one of a run's roles in this process, with its configuration, secrets, metrics, and registry.
#include "app/roles/run_role.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "app/cluster/access/grpc_access.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/role_addresses.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/run_roles.h"
#include "app/cluster/status/role_waits.h"
#include "app/cluster/supervisor.h"
#include "app/models/device.h"
#include "app/record/run_metrics.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/kept_loss.h"
#include "app/run/kept_template.h"
#include "app/run/persist.h"
#include "app/run/process.h"
#include "app/run/run_args.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/run/threads.h"
#include "base/device_failure.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/work.h"
#include "kernels/torch/exact.h"
#include "trainer/pass/tensor_memory.h"

namespace ingot::app {
namespace {

absl::StatusOr<std::vector<std::unique_ptr<MetricsEndpoint>>> ServeRoleMetrics(const RunConfig& config,
                                                                               const RunDir& dir,
                                                                               const std::string& role, int index,
                                                                               const MetricsEndpoint::Text& text,
                                                                               const RoleWaits& waits) {
  const std::string name = RoleName(role, index);
  // Rank 0 serves the trainer's metrics. The other ranks' sockets only show that they are alive.
  const bool follows = role == "trainer" && index > 0;
  const int port = follows ? 0 : MetricsPort(config, role, index);
  return ServeMetrics(config, dir, name, port, text, [&waits] {
    ReportedWaits reported = waits.Reported();
    reported.computes = base::Work::OfProcess().Describe();
    return PrintWaits(reported);
  });
}

absl::Status NoToken(const std::string& role) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the role ", role,
      " needs the run's token, which authenticates RPCs between roles: put it in a file (`openssl rand -hex 32 > FILE; "
      "chmod 600 FILE`), copy the file to every machine, and name it in cluster.token_file, or pass it as --token-fd "
      "N. `ingot launch` does this for the roles that it starts"));
}

// A role's configuration and the secrets that it shares with the other roles.
struct LoadedRole {
  LoadedConfig loaded;
  std::string admin_key;
  RpcAccess access;
};

// Rejects a role that the configuration does not include. REQUIRES: no thread is creating descriptors or processes.
absl::StatusOr<LoadedRole> LoadRole(const std::string& role, const RunArgs& args) {
  // Read the descriptor before anything else.
  RunSecrets secrets;
  if (args.token_fd >= 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, ReadRunSecrets(args.token_fd));
  }
  INGOT_ASSIGN_OR_RETURN(LoadedConfig loaded, LoadRunConfig(args.config, args.overrides));
  const RunConfig& config = *loaded.config;
  UseKeptTemplate(config.root + "/" + config.name, loaded.config->model);
  if (role == "trainer") {
    INGOT_RETURN_IF_ERROR(UseKeptLoss(config.root + "/" + config.name, loaded.config->trainer));
  }
  INGOT_RETURN_IF_ERROR(CheckThreads(ThreadsOfRole(config, role)));
  if (args.token_fd < 0) {
    INGOT_ASSIGN_OR_RETURN(secrets, FindRunSecrets(config));
  }
  if (secrets.token.empty() && !config.tasks.empty()) return NoToken(role);
  INGOT_ASSIGN_OR_RETURN(RpcAccess access, AccessOf(config.cluster, std::move(secrets.token)));
  if (role != "trainer") INGOT_RETURN_IF_ERROR(RequireTasks(config));
  if (role == "rewards") INGOT_RETURN_IF_ERROR(RequireRewardsRole(config));
  return LoadedRole{std::move(loaded), std::move(secrets.admin_key), std::move(access)};
}

bool Computes(const std::string& role) { return role == "trainer" || role == "rollout"; }

// Each trainer rank gets its own device. Engines use the remaining devices and then start over with the first.
absl::StatusOr<DeviceChoice> DeviceOf(const RunConfig& config, const std::string& role, const RunArgs& args,
                                      int index) {
  if (!Computes(role)) return DeviceChoice();
  return OpenDevice(config.device, args.device_place >= 0 ? args.device_place : DevicePlaceOf(config, {role, index}));
}

// Returns null if this role calls no other role.
absl::StatusOr<std::unique_ptr<RunRegistry>> RegistryOf(const RunConfig& config, const RunDir& dir,
                                                        const std::string& role, int index, const RpcAccess& access) {
  std::unique_ptr<RunRegistry> registry;
  if (config.tasks.empty() || (role == "trainer" && index > 0)) return registry;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "reaching the run's registry", [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(auto opened, RunRegistry::Open(config, dir.path(), access));
    INGOT_RETURN_IF_ERROR(opened->Follow());
    registry = std::move(opened);
    return absl::OkStatus();
  }));
  return registry;
}

absl::StatusOr<int> RunIn(const RoleContext& context, const std::string& role) {
  if (role == "trainer") return RunTrainer(context);
  absl::Status status;
  if (role == "datapool") status = RunDataPool(context);
  if (role == "rewards") status = RunRewards(context);
  if (role == "scheduler") status = RunScheduler(context);
  if (role == "rollout") status = RunRollout(context);
  if (role == "gateway") status = RunGateway(context);
  if (role == "agents") status = RunAgents(context);
  INGOT_RETURN_IF_ERROR(status);
  return 0;
}

absl::StatusOr<int> RunRoleOrError(const std::string& role, const RunArgs& args, int index) {
  INGOT_ASSIGN_OR_RETURN(LoadedRole start, LoadRole(role, args));
  const RunConfig& config = *start.loaded.config;
  if (role == "trainer") trainer::KeepTensorMemory();
  kernels::SetDeviceNumerics(config.numerics);
  INGOT_ASSIGN_OR_RETURN(const DeviceChoice device, DeviceOf(config, role, args, index));
  base::InitLogging(role, config.log_level, "");
  base::Metrics metrics(config.metrics.max_labels);
  const auto device_watch = Computes(role) ? ReportDevice(device, metrics) : nullptr;
  RoleWaits waits;
  waits.Start();
  MoreMetrics more_metrics;
  const auto text = [&metrics, &more_metrics] { return more_metrics.Text() + metrics.RenderText(); };
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
  INGOT_ASSIGN_OR_RETURN(const auto endpoints, ServeRoleMetrics(config, dir, role, index, text, waits));
  std::unique_ptr<RunRegistry> registry;
  const absl::Cleanup forget = [&waits] { waits.Forget(); };
  INGOT_ASSIGN_OR_RETURN(registry, RegistryOf(config, dir, role, index, start.access));
  if (registry != nullptr) {
    waits.Follow([&registry] { return registry->LongCalls(RoleWaits::kCallTimeout); },
                 [&registry](const std::string& reported) { registry->ReportWaits(reported); });
  }
  const RoleContext context{config,
                            dir,
                            args.resume,
                            index,
                            metrics,
                            device,
                            std::move(start.admin_key),
                            std::move(start.access),
                            registry.get(),
                            more_metrics};
  return RunIn(context, role);
}

}  // namespace

int RunRole(const std::string& role, const RunArgs& args, int index, bool supervised) {
  HandleSignals(supervised);
  const absl::StatusOr<int> code = RunRoleOrError(role, args, index);
  // A trainer that finished despite a signal returns its own exit code.
  const bool ended_by_signal = StopFlag() && (role == "trainer" ? absl::IsCancelled(code.status()) : code.ok());
  if (!code.ok()) {
    const int failed = Fail(code.status());
    if (!supervised) return failed;
    return ended_by_signal ? kStoppedExit : base::IsDeviceFailure(code.status()) ? kDeviceFailedExit : failed;
  }
  return supervised && ended_by_signal ? kStoppedExit : *code;
}

}  // namespace ingot::app
