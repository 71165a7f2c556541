#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "app/cluster/access/run_secrets.h"
#include "app/cluster/role_addresses.h"
#include "app/cluster/run_roles.h"
#include "app/cluster/supervisor.h"
#include "app/models/model_setup.h"
#include "app/roles/device_groups.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/roles/trained_engines.h"
#include "app/run/compute_members.h"
#include "app/run/process.h"
#include "app/training/eval_grades.h"
#include "app/training/supervised.h"
#include "app/training/training.h"
#include "app/training/weight_transports.h"
#include "base/executor.h"
#include "base/log.h"
#include "base/waits.h"
#include "engines/grpc_client.h"
#include "rollout/grpc_client.h"
#include "scheduler/grpc_client.h"
#include "trainer/parallel/ranks.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// Shorter than kRoleDeadline, because the trainer retries its requests as long as the run lasts. If all roles are
// stopped at once, the trainer must notice and save its weights within the supervisor's grace period.
constexpr milliseconds kTrainerDeadline{10000};
// Gateways are only polled for a terminal line, between two requests for a batch.
constexpr milliseconds kGatewayDeadline{1000};
// Setting an engine aside is repeated at the next measured step.
constexpr milliseconds kGuardDeadline{5000};

// Longer than the engine's own timeout, so that its error names the cause.
milliseconds ParkDeadline(const RunConfig& config) {
  return std::chrono::duration_cast<milliseconds>(base::FromSeconds(config.cluster.park_timeout_s)) +
         milliseconds(5000);
}

absl::StatusOr<int> RunTrainerRole(const RoleContext& context, trainer::Ranks* ranks) {
  const RunConfig& config = context.config;
  const RunDir& dir = context.dir;
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model, context.device.torch_name));
  if (config.tasks.empty()) {  // there are no other roles
    INGOT_RETURN_IF_ERROR(TrainSupervised(config, dir, model, ranks, context.resume, context.metrics, StopFlag()));
    return 0;
  }
  RoleClients clients;
  clients.pool = PoolOf(context);
  clients.scheduler = scheduler::NewGrpcClient(context.registry->To("scheduler"), kTrainerDeadline);
  clients.engine = ConnectEngines(*context.registry, config.cluster.rollout_engines, config.rollout.router);
  for (int i = 0; config.has_external_engine() && i < config.cluster.rollout_engines; ++i) {
    clients.engines.emplace_back(RoleName("rollout", i),
                                 rollout::NewGrpcClient(context.registry->To(RoleName("rollout", i))));
  }
  if (config.has_external_engine()) {
    clients.set_aside = [registry = context.registry](const std::string& engine, const std::string& why) {
      return engines::NewGrpcEngineGuard(registry->To(engine), kGuardDeadline)->SetAside(why);
    };
  }
  clients.gateways = ClientsOfGateways(*context.registry, config.cluster.gateways, kGatewayDeadline);
  base::Executor timers({.name = "timers", .threads = 2});  // connecting blocks one of them
  // Shared with the registry's observer, which outlives the other objects in this function.
  const auto engines = std::make_shared<TrainedEngines>(context, timers);
  for (int i = 0; i < config.cluster.rollout_engines; ++i) INGOT_RETURN_IF_ERROR(engines->Add(RoleName("rollout", i)));
  context.registry->OnRole("rollout", [weak = std::weak_ptr(engines), &config](const std::string& name) {
    const auto joined = weak.lock();
    if (EngineNumber(name).value_or(0) < config.cluster.rollout_engines || joined == nullptr) return;
    if (const absl::Status added = joined->Add(name); !added.ok()) {
      INGOT_LOG(error, "{} receives no weights: {}", name, added.ToString());
    }
  });
  weights::Publisher& publisher = engines->publisher();
  // A restarted engine has no weights, and the next step may need it to sample, so leases are also renewed between
  // steps.
  const base::Timer leases = timers.PostEvery(milliseconds(1000), [&publisher] { publisher.CheckLeases(); });
  TrainerParts parts{.clients = clients, .publisher = publisher, .ranks = ranks};
  parts.compute = ComputeMemberOfRole(config, context.device.torch_name, dir.path(), "trainer", context.index);
  for (int i = 0; config.cluster.placement == Placement::kShared && i < config.cluster.rollout_engines; ++i) {
    const std::string name = RoleName("rollout", i);
    parts.parked.emplace_back(name, rollout::NewGrpcParking(context.registry->To(name), ParkDeadline(config)));
  }
  INGOT_ASSIGN_OR_RETURN(parts.writer, engines->RankWriter());
  if (parts.writer != nullptr) {
    INGOT_ASSIGN_OR_RETURN(parts.store, RankStoreOf(config, dir));
  }
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts terms, TermPartsOf(context, clients));
  INGOT_ASSIGN_OR_RETURN(parts.eval_grades, EvalGrades::Make(config, *clients.pool, terms));
  INGOT_ASSIGN_OR_RETURN(const bool goal_met,
                         RunTraining(config, dir, model, parts, context.resume, context.metrics, StopFlag()));
  return goal_met ? 0 : 1;
}

// Returns what this rank waits for, such as a collective, for an error.
std::string WhileWaiting() {
  const std::vector<std::string> waits = base::Waits::OfProcess().Longer(milliseconds(0), base::WaitKind::kWork);
  return waits.empty() ? "" : absl::StrCat(" while this rank waited for ", absl::StrJoin(waits, ", "));
}

// Exits without a clean shutdown. Everything that must persist is already on disk, and torch's threads may wait forever
// for the other ranks.
[[noreturn]] void EndForLostRank(const absl::Status& lost) {
  INGOT_LOG(error, "{}{}; all ranks restart from the last checkpoint", std::string(lost.message()), WhileWaiting());
  _exit(kGroupLostExit);
}

absl::Status ExchangeOnDevices(const RoleContext& context, trainer::RankOptions& options) {
  if (const int ranks = RanksPerNode(context.config); ranks > context.device.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.trainer_ranks puts ", ranks, " ranks on this machine, which has ", context.device.devices,
                     " devices, and each rank needs one: use fewer ranks, or device=cpu"));
  }
  options.nccl = DeviceExchanges(context);
  if (options.nccl == nullptr) {
    return absl::UnavailableError("the device library was built without NCCL: build it with `make cuda`");
  }
  options.device = context.device.torch_name;
  return absl::OkStatus();
}

absl::StatusOr<int> RunRank(const RoleContext& context) {
  const RunConfig& config = context.config;
  trainer::RankOptions options;
  if (context.device.library != nullptr) INGOT_RETURN_IF_ERROR(ExchangeOnDevices(context, options));
  options.rank = context.index;
  options.size = config.cluster.trainer_ranks;
  options.own_host = OwnHost(config.cluster);
  options.host = config.cluster.trainer_host.empty() ? options.own_host : config.cluster.trainer_host;
  options.port = config.cluster.trainer_port;
  options.secret = SecretOfRanks(context.access.token);
  options.deadline = std::chrono::seconds(config.cluster.rank_deadline_s);
  options.on_lost = EndForLostRank;  // no matter what this rank is computing
  std::unique_ptr<trainer::Ranks> ranks;
  const auto run = [&]() -> absl::StatusOr<int> {
    INGOT_ASSIGN_OR_RETURN(ranks, trainer::Ranks::Join(options));
    if (ranks->leads()) return RunTrainerRole(context, ranks.get());
    std::optional<weights::VersionStore> store;
    if (!config.tasks.empty() && RanksStoreVersions(config)) {
      INGOT_ASSIGN_OR_RETURN(store, RankStoreOf(config, context.dir));
    }
    INGOT_RETURN_IF_ERROR(FollowTraining(config, context.dir, context.device.torch_name, *ranks, std::move(store)));
    return 0;
  };
  absl::StatusOr<int> code = run();
  if (trainer::IsRankLost(code.status())) EndForLostRank(code.status());
  return code;
}

}  // namespace

absl::StatusOr<int> RunTrainer(const RoleContext& context) {
  const RunConfig& config = context.config;
  if (config.tasks.empty()) {  // every rank checks this before it waits for the others
    INGOT_ASSIGN_OR_RETURN(const bool done, SupervisedIsDone(context.dir));
    if (done) return 0;
  }
  return config.cluster.trainer_ranks > 1 ? RunRank(context) : RunTrainerRole(context, nullptr);
}

}  // namespace ingot::app
