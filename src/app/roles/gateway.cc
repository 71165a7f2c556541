#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "app/cluster/gateway_peers.h"
#include "app/cluster/role_addresses.h"
#include "app/models/model_setup.h"
#include "app/roles/assembly.h"
#include "app/roles/role.h"
#include "app/roles/roles.h"
#include "app/run/full_disk.h"
#include "app/run/process.h"
#include "base/executor.h"
#include "base/log.h"
#include "gateway/http/http_server.h"
#include "gateway/service.h"
#include "scheduler/grpc_client.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

// With port 0, a restarted gateway listens on its previous port if possible, because agents and their clients use that
// address. RUN/gateway_port contains the first gateway's port, and RUN/gateway-1_port the second's.
absl::StatusOr<std::unique_ptr<gateway::HttpServer>> StartHttp(const RoleContext& context, gateway::Gateway& gateway) {
  const std::string port_file = RoleName("gateway", context.index) + "_port";
  const auto start = [&](int port) {
    http::Options options = context.config.http;
    options.port = port;
    return gateway::HttpServer::Start(options, gateway, OwnHost(context.config.cluster));
  };
  const int configured = context.config.http.port;
  int before = 0;
  if (configured == 0) std::ifstream(absl::StrCat(context.dir.path(), "/", port_file)) >> before;
  auto http = start(before > 0 && before < 65536 ? before : configured);
  if (!http.ok() && before != 0) http = start(configured);  // another process is using it
  INGOT_RETURN_IF_ERROR(http.status());
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), absl::StrCat("writing ", context.dir.path(), "/", port_file), [&] {
    return NameFullDisk(context.dir.WriteFile(port_file, absl::StrCat((*http)->port(), "\n")), context.dir.path(),
                        4096);
  }));
  return http;
}

// Lets a dead gateway's agents continue their open episodes. Episodes that it admitted but did not store are retried.
absl::Status GoOnFor(const std::string& role, gateway::Gateway& gateway, scheduler::Client& scheduler) {
  INGOT_RETURN_IF_ERROR(gateway.Recover(role));
  v1::ReconcileRequest request;
  request.set_gateway(role);
  return base::Annotate(scheduler.Reconcile(request).status(), "reconciling open episodes with the scheduler");
}

// Returns the HOST:PORT where the run's other processes reach a gateway over HTTP.
std::string HttpPlace(const RoleContext& context, const gateway::HttpServer& http) {
  const std::string& host = context.config.http.host;
  const bool every = host == "0.0.0.0" || host == "::";
  return absl::StrCat(every ? OwnHost(context.config.cluster) : host, ":", http.port());
}

}  // namespace

absl::Status RunGateway(const RoleContext& context) {
  const RunConfig& config = context.config;
  INGOT_ASSIGN_OR_RETURN(const ModelSetup model, SetUpModel(config.model));
  RoleClients clients;
  clients.pool = PoolOf(context);
  clients.scheduler = scheduler::NewGrpcClient(context.registry->To("scheduler"), kRoleDeadline);
  const std::shared_ptr<rollout::EngineSet> engines =
      ConnectEngines(*context.registry, config.cluster.rollout_engines, config.rollout.router);
  clients.engine = engines;
  INGOT_ASSIGN_OR_RETURN(clients.external, ConnectExternalModels(config.gateway, config.cluster.allow_plaintext));
  GatewayPeers peers(*context.registry, config.cluster.gateways, context.index);
  gateway::GatewayParts parts;
  parts.admin_key = context.admin_key;
  parts.pins_episodes = config.rollout.episode_version == rollout::EpisodeVersion::kPinned;
  parts.vocab_size = static_cast<int32_t>(model.shape.vocab_size);
  parts.name = peers.name();
  parts.peers = &peers.peers();
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::Gateway> gateway,
                         MakeGateway(config.gateway, clients, model.text, std::move(parts)));
  const absl::Cleanup without = [&context] { context.more_metrics.Set(nullptr); };
  context.more_metrics.Set([&gateway, engines] { return gateway->MetricsText() + engines->MetricsText(); });
  INGOT_RETURN_IF_ERROR(Persist(RoleRetryPolicy(), "taking the open episodes over", [&] {
    return GoOnFor(RoleName("gateway", context.index), *gateway, *clients.scheduler);
  }));
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<gateway::HttpServer> http, StartHttp(context, *gateway));
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(gateway::NewGatewayService(*gateway));
  INGOT_ASSIGN_OR_RETURN(std::unique_ptr<GrpcServer> server,
                         ServeRole(context, "gateway", std::move(services), HttpPlace(context, *http)));
  INGOT_LOG(info, "agents reach the gateway at {}; it listens at {}", http->base_url(), http->url());
  if (config.agents.recipes.empty()) std::printf("%s\n", DescribeEntrance(http->base_url()).c_str());
  base::Executor timers({.name = "timers"});
  const base::Timer watch = timers.PostEvery(milliseconds(1000), [&] {
    for (const std::string& gone : peers.Gone()) {
      const absl::Status taken = GoOnFor(gone, *gateway, *clients.scheduler);
      if (taken.ok()) peers.Settle(gone);
      INGOT_LOG(warn, "{} is gone, and its open episodes {}", gone,
                taken.ok() ? "continue" : "wait: " + taken.ToString());
    }
  });
  WaitForStop();
  http->Stop();
  server.reset();
  gateway->Shutdown();
  return absl::OkStatus();
}

}  // namespace ingot::app
