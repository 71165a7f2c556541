#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/cluster/access/run_secrets.h"
#include "app/cluster/role_addresses.h"
#include "app/cluster/supervisor.h"
#include "app/models/model_setup.h"
#include "app/roles/device_groups.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/roles/term_servers.h"
#include "app/roles/trained_engines.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"
#include "app/training/eval_grades.h"
#include "app/training/supervised.h"
#include "app/training/training.h"
#include "app/training/weight_ways.h"
#include "base/executor.h"
#include "base/log.h"
#include "scheduler/grpc_client.h"
#include "trainer/parallel/ranks.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// Shorter than kRoleDeadline, because the trainer retries its requests as long as the run lasts. If all roles are
// stopped at once, it must notice and save its weights before its supervisor's grace is over.
constexpr milliseconds kTrainerDeadline{10000};

// Runs a run without tasks, which has no other roles.
absl::Status RunSupervised(const RoleContext& context, const RunDir& dir, trainer::Ranks* ranks) {
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(context.config.model, context.device.torch_name));
  return TrainSupervised(context.loaded, dir, model, ranks, context.resume, context.metrics, StopFlag());
}

absl::StatusOr<int> RunTrainerRole(const RoleContext& context, trainer::Ranks* ranks) {
  const RunConfig& config = context.config;
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
  if (config.tasks.empty()) {
    INGOT_RETURN_IF_ERROR(RunSupervised(context, dir, ranks));
    return 0;
  }
  const std::unique_ptr<datapool::Client> pool = PoolOf(context);
  const std::unique_ptr<scheduler::Client> scheduler =
      scheduler::NewGrpcClient(context.registry->To("scheduler"), kTrainerDeadline);
  const std::shared_ptr<rollout::Client> engine = ConnectEngines(*context.registry, config.cluster.rollout_engines);
  base::Executor timers({.name = "timers", .threads = 2});  // connecting blocks one of them
  // Shared with the registry's observer, which outlives this function's other objects.
  const auto engines = std::make_shared<TrainedEngines>(context, dir, timers);
  for (int i = 0; i < config.cluster.rollout_engines; ++i) INGOT_RETURN_IF_ERROR(engines->Add(RoleName("rollout", i)));
  context.registry->OnRole("rollout", [weak = std::weak_ptr(engines), &config](const std::string& name) {
    const auto joined = weak.lock();
    if (EngineNumber(name).value_or(0) < config.cluster.rollout_engines || joined == nullptr) return;
    if (const absl::Status added = joined->Add(name); !added.ok()) {
      INGOT_LOG(error, "{} gets no weights: {}", name, added.ToString());
    }
  });
  weights::Publisher& publisher = engines->publisher();
  // A restarted engine is empty, and the next step may need it to sample: leases are renewed between steps too.
  const base::Timer leases = timers.PostEvery(milliseconds(1000), [&publisher] { publisher.CheckLeases(); });
  TrainingSeams seams;
  seams.scheduler = scheduler.get();
  seams.pool = pool.get();
  seams.engine = engine.get();
  seams.publisher = &publisher;
  seams.device = context.device.torch_name;
  seams.ranks = ranks;
  INGOT_ASSIGN_OR_RETURN(seams.writer, engines->RankWriter());
  if (seams.writer != nullptr) {
    INGOT_ASSIGN_OR_RETURN(seams.store, RankStoreOf(config, dir));
  }
  INGOT_ASSIGN_OR_RETURN(const reward::TermParts servers, ServersOfTerms(context));
  INGOT_ASSIGN_OR_RETURN(seams.eval_grades, EvalGrades::Make(context.config, *pool, servers));
  INGOT_ASSIGN_OR_RETURN(const TrainingResult result,
                         RunTraining(context.loaded, dir, seams, context.resume, context.metrics, StopFlag()));
  return result.goal_met ? 0 : 1;
}

// Ends the process without an orderly shutdown: everything that must last is on disk, and torch's threads may wait
// forever for the other ranks.
[[noreturn]] void EndForLostRank(const absl::Status& lost) {
  INGOT_LOG(error, "{}; all ranks restart from the last checkpoint", std::string(lost.message()));
  _exit(kGroupLostExit);
}

absl::Status ExchangeOnDevices(const RoleContext& context, trainer::RankOptions& options) {
  if (context.config.cluster.trainer_ranks > context.device.devices) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.trainer_ranks is ", context.config.cluster.trainer_ranks,
                                                   ", but this machine has ", context.device.devices,
                                                   " devices, one for each rank: use fewer ranks, or device=cpu"));
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
  options.on_lost = EndForLostRank;  // whatever this rank computes meanwhile
  std::unique_ptr<trainer::Ranks> ranks;
  const auto run = [&]() -> absl::StatusOr<int> {
    INGOT_ASSIGN_OR_RETURN(ranks, trainer::Ranks::Join(options));
    if (ranks->leads()) return RunTrainerRole(context, ranks.get());
    INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
    std::optional<weights::VersionStore> store;
    if (!config.tasks.empty() && RanksStoreVersions(config)) {
      INGOT_ASSIGN_OR_RETURN(store, RankStoreOf(config, dir));
    }
    INGOT_RETURN_IF_ERROR(FollowTraining(config, dir, context.device.torch_name, *ranks, std::move(store)));
    return 0;
  };
  absl::StatusOr<int> code = run();
  if (trainer::IsRankLost(code.status())) EndForLostRank(code.status());
  return code;
}

}  // namespace

absl::StatusOr<int> RunTrainer(const RoleContext& context) {
  const RunConfig& config = context.config;
  if (config.tasks.empty()) {  // checked by every rank before it waits for the others
    INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(config.root, config.name));
    INGOT_ASSIGN_OR_RETURN(const bool done, SupervisedIsDone(dir));
    if (done) return 0;
  }
  return config.cluster.trainer_ranks > 1 ? RunRank(context) : RunTrainerRole(context, nullptr);
}

}  // namespace ingot::app
