#include "app/record/run_view.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "app/cluster/role_addresses.h"
#include "app/record/run_loggers.h"
#include "app/record/run_metrics.h"
#include "base/log.h"
#include "base/work.h"
#include "datapool/grpc_client.h"
#include "rollout/grpc_client.h"
#include "scheduler/grpc_client.h"

namespace ingot::app {
namespace {

absl::StatusOr<RoleClients> ConnectRoles(const ClusterOptions& cluster, RunRegistry& registry) {
  constexpr std::chrono::milliseconds kDeadline(5000);
  INGOT_RETURN_IF_ERROR(registry.Follow());
  RoleClients clients;
  clients.pool = datapool::NewGrpcClient(ConnectPool(registry, cluster.datapools), kDeadline);
  clients.scheduler = scheduler::NewGrpcClient(registry.To("scheduler"), kDeadline);
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    const std::string name = RoleName("rollout", i);
    clients.engines.emplace_back(name, rollout::NewGrpcClient(registry.To(name)));
  }
  clients.gateways = ClientsOfGateways(registry, cluster.gateways, kDeadline);
  return clients;
}

}  // namespace

std::string OwnWork() { return base::Work::OfProcess().Describe(); }

absl::StatusOr<RunView> ServeRunView(const LoadedConfig& loaded, const RunDir& dir, RoleClients clients,
                                     const std::shared_ptr<const text::Tokenizer>& tokenizer,
                                     const std::string& no_pool, std::function<std::string()> trainer) {
  RunView view;
  view.clients = std::move(clients);
  if (!view.clients.gateways.empty()) {
    auto episodes = EpisodesEndpoint::Start(dir.path(), view.clients.gateways);
    if (episodes.ok()) view.episodes = *std::move(episodes);
    if (!episodes.ok())
      INGOT_LOG(warn, "`ingot episodes` will not find this run: {}", std::string(episodes.status().message()));
  }
  INGOT_ASSIGN_OR_RETURN(view.page,
                         RunPage::OfRunning(*loaded.config, dir, view.clients, tokenizer, no_pool, std::move(trainer)));
  INGOT_ASSIGN_OR_RETURN(view.follower,
                         FollowRun(*loaded.config, dir, loaded.schema.EffectiveYaml(), view.clients.pool.get()));
  return view;
}

absl::StatusOr<RunView> ServeLaunchedView(const LoadedConfig& loaded, const RunDir& dir, RunRegistry* registry,
                                          const std::shared_ptr<const text::Tokenizer>& tokenizer,
                                          std::function<std::string()> trainer) {
  RoleClients clients;
  if (registry != nullptr) {
    INGOT_ASSIGN_OR_RETURN(clients, ConnectRoles(loaded.config->cluster, *registry));
  }
  return ServeRunView(loaded, dir, std::move(clients), tokenizer, kSupervisedHasNoPool, std::move(trainer));
}

absl::Status TrainInView(const LoadedConfig& loaded, const RunDir& dir,
                         const std::shared_ptr<const text::Tokenizer>& tokenizer, const std::string& no_pool,
                         base::Metrics& metrics, const std::function<absl::Status()>& train) {
  const RunConfig& config = *loaded.config;
  INGOT_ASSIGN_OR_RETURN(const auto endpoints, ServeMetrics(config, dir, "ingot", config.metrics.port,
                                                            [&metrics] { return metrics.RenderText(); }));
  INGOT_ASSIGN_OR_RETURN(const RunView view, ServeRunView(loaded, dir, RoleClients(), tokenizer, no_pool));
  if (view.page != nullptr) std::printf("page %s\n", view.page->NewLink().c_str());
  std::fflush(stdout);  // loading the model may take a long time
  INGOT_RETURN_IF_ERROR(train());
  if (view.follower != nullptr) view.follower->End(/*ok=*/true);
  return absl::OkStatus();
}

}  // namespace ingot::app
