#include "app/role_addresses.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "app/grpc_server.h"
#include "rollout/engine_set.h"
#include "rollout/grpc_client.h"

namespace ingot::app {
namespace {

std::string At(const ClusterOptions& cluster, int port) { return absl::StrCat(cluster.host, ":", port); }

}  // namespace

std::string DataPoolAddress(const ClusterOptions& cluster) { return At(cluster, cluster.datapool_port); }
std::string SchedulerAddress(const ClusterOptions& cluster) { return At(cluster, cluster.scheduler_port); }
std::string GatewayAddress(const ClusterOptions& cluster) { return At(cluster, cluster.gateway_port); }
std::string RolloutAddress(const ClusterOptions& cluster, int engine) {
  return At(cluster, cluster.rollout_port + engine);
}

int MetricsPort(const MetricsConfig& metrics, const std::string& role, int index) {
  if (metrics.port == 0) return 0;
  static const char* const kOrder[] = {"datapool", "scheduler", "gateway", "trainer", "agents", "rollout"};
  const auto number = std::find(std::begin(kOrder), std::end(kOrder), role) - std::begin(kOrder);
  return metrics.port + static_cast<int>(number) + index;
}

std::shared_ptr<rollout::Client> ConnectEngines(const ClusterOptions& cluster) {
  std::vector<std::shared_ptr<rollout::Client>> engines;
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    engines.push_back(rollout::NewGrpcClient(Connect(RolloutAddress(cluster, i))));
  }
  if (engines.size() == 1) return engines.front();
  return std::make_shared<rollout::EngineSet>(std::move(engines), base::Clock::Real());
}

std::map<std::string, std::shared_ptr<rollout::Client>> ConnectExternalModels(const gateway::GatewayOptions& options) {
  std::map<std::string, std::shared_ptr<rollout::Client>> clients;
  for (const gateway::ModelOptions& model : options.models) {
    if (model.weights != gateway::ModelWeights::kExternal) continue;
    clients[model.name] = rollout::NewGrpcClient(Connect(model.address));
  }
  return clients;
}

}  // namespace ingot::app
