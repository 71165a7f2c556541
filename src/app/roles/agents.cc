#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "agents/grpc_episodes.h"
#include "app/cluster/role_addresses.h"
#include "app/roles/assembly.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/full_disk.h"
#include "app/run/process.h"
#include "base/executor.h"
#include "gateway/options.h"

namespace ingot::app {

absl::Status RunAgents(const RoleContext& context) {
  agents::GrpcEpisodesOptions options;
  INGOT_ASSIGN_OR_RETURN(options.admin_key, gateway::ReadAdminKey(context.config.gateway));
  if (options.admin_key.empty()) options.admin_key = context.admin_key;
  const std::vector<v1::RoleChannel> gateways = ConnectGateways(*context.registry, context.config.cluster.gateways);
  base::Executor timers({.name = "timers"});
  const base::Timer connecting = KeepConnecting(timers, gateways);
  RoleClients clients;
  clients.episodes = agents::MakeGrpcEpisodes(gateways, options);
  std::unique_ptr<agents::Runner> runner;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "preparing the agents' sandboxes", [&]() -> absl::Status {
    auto made = MakeAgents(context.config, context.dir, clients, context.metrics);
    if (!made.ok()) return NameFullDisk(made.status(), context.dir.path(), kStartBytes);
    runner = *std::move(made);
    return absl::OkStatus();
  }));
  INGOT_RETURN_IF_ERROR(runner->Start());
  while (!StopFlag() && !runner->WaitDone(std::chrono::milliseconds(200))) {
  }
  return runner->Stop();
}

}  // namespace ingot::app
