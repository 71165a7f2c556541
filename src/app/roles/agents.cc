#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "agents/grpc_episodes.h"
#include "agents/runner.h"
#include "app/cluster/role_addresses.h"
#include "app/roles/agents_substrate.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/full_disk.h"
#include "app/run/process.h"
#include "app/run/run_dir.h"
#include "base/clock.h"
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
  const std::unique_ptr<agents::Episodes> episodes = agents::MakeGrpcEpisodes(gateways, options);
  INGOT_ASSIGN_OR_RETURN(const RunDir dir, RunDir::Attach(context.config.root, context.config.name));
  std::unique_ptr<sandbox::Substrate> substrate;
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "preparing the agents' sandboxes", [&]() -> absl::Status {
    auto made = MakeAgentsSubstrate(context.config, dir);
    if (!made.ok()) return NameFullDisk(made.status(), dir.path(), kStartBytes);
    substrate = *std::move(made);
    return absl::OkStatus();
  }));
  ReportProbeResult(substrate->probe_result(), context.metrics);
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<agents::Runner> runner,
                         agents::Runner::Make(RunnerOptionsOf(context.config), std::move(substrate), *episodes,
                                              base::Clock::Real(), &context.metrics));
  INGOT_RETURN_IF_ERROR(runner->Start());
  while (!StopFlag() && !runner->WaitDone(std::chrono::milliseconds(200))) {
  }
  return runner->Stop();
}

}  // namespace ingot::app
