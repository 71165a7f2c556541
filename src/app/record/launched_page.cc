#include "app/record/launched_page.h"

#include <chrono>

#include "app/cluster/role_addresses.h"
#include "app/record/run_loggers.h"
#include "datapool/grpc_client.h"
#include "rollout/grpc_client.h"
#include "scheduler/grpc_client.h"

namespace ingot::app {
namespace {

// Connects the clients, and returns their roles.
absl::StatusOr<RunPage::Roles> ConnectRoles(const ClusterOptions& cluster, RunRegistry& registry,
                                            LaunchedPage& served) {
  constexpr std::chrono::milliseconds kDeadline(5000);
  INGOT_RETURN_IF_ERROR(registry.Follow());
  served.pool = datapool::NewGrpcClient(ConnectPool(registry, cluster.datapools), kDeadline);
  served.scheduler = scheduler::NewGrpcClient(registry.To("scheduler"), kDeadline);
  RunPage::Roles roles;
  roles.pool = served.pool.get();
  roles.scheduler = served.scheduler.get();
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    served.engines.push_back(rollout::NewGrpcClient(registry.To(RoleName("rollout", i))));
    roles.engines.emplace_back(RoleName("rollout", i), served.engines.back().get());
  }
  return roles;
}

}  // namespace

absl::StatusOr<LaunchedPage> ServeLaunchedPage(const LoadedConfig& loaded, const RunDir& dir, RunRegistry* registry,
                                               const std::shared_ptr<const text::Tokenizer>& tokenizer) {
  const RunConfig& config = *loaded.config;
  LaunchedPage served;
  RunPage::Roles roles;
  if (registry != nullptr) {
    INGOT_ASSIGN_OR_RETURN(roles, ConnectRoles(config.cluster, *registry, served));
  }
  roles.tokenizer = tokenizer;
  INGOT_ASSIGN_OR_RETURN(served.page, RunPage::OfRunning(config, dir, roles));
  INGOT_ASSIGN_OR_RETURN(served.follower, FollowRun(config, dir, loaded.schema.EffectiveYaml(), served.pool.get()));
  return served;
}

}  // namespace ingot::app
