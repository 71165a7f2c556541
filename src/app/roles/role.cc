#include "app/roles/role.h"

#include <thread>

#include "app/cluster/role_addresses.h"
#include "app/roles/assembly.h"
#include "app/run/named_models.h"
#include "app/run/process.h"
#include "base/log.h"
#include "datapool/grpc_client.h"

namespace ingot::app {

using std::chrono::milliseconds;

RetryPolicy RoleRetryPolicy() { return {.stop = &StopFlag()}; }

void WaitForStop(const std::function<bool()>& over) {
  while (!StopFlag() && !over()) std::this_thread::sleep_for(milliseconds(50));
}

absl::StatusOr<std::unique_ptr<GrpcServer>> ServeRole(const RoleContext& context, const std::string& role,
                                                      std::vector<std::unique_ptr<grpc::Service>> services,
                                                      const std::string& http) {
  const ClusterOptions& cluster = context.config.cluster;
  INGOT_ASSIGN_OR_RETURN(
      std::unique_ptr<GrpcServer> server,
      GrpcServer::Start(AtHost(cluster, RolePort(cluster, role, context.index)), std::move(services), context.access));
  const std::string name = RoleName(role, context.index), address = AtHost(cluster, server->port());
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "registering in the run's registry",
                                [&] { return context.registry->Register(name, address, http); }));
  INGOT_LOG(info, "{} listens on {}", name, address);
  return server;
}

std::unique_ptr<datapool::Client> PoolOf(const RoleContext& context) {
  return datapool::NewGrpcClient(ConnectPool(*context.registry, context.config.cluster.datapools), kRoleDeadline);
}

absl::StatusOr<reward::TermParts> TermPartsOf(const RoleContext& context, RoleClients& clients) {
  const RunConfig& config = context.config;
  if (AsksModels(config.rewards)) {
    if (clients.engine == nullptr) {
      clients.engine = ConnectEngines(*context.registry, config.cluster.rollout_engines, config.rollout.router);
    }
    INGOT_ASSIGN_OR_RETURN(clients.external, ConnectExternalModels(config.gateway, config.cluster.allow_plaintext));
  }
  return MakeTermParts(config, clients, [&] { return TextPartsOf(config.model); });
}

base::Timer KeepConnecting(base::Executor& executor, std::vector<v1::RoleChannel> channels) {
  return executor.PostEvery(milliseconds(100), [channels = std::move(channels)] {
    for (const v1::RoleChannel& channel : channels) {
      channel.Now()->WaitForConnected(std::chrono::system_clock::now() + milliseconds(200));
    }
  });
}

}  // namespace ingot::app
