#include "app/cluster/role_addresses.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "base/log.h"
#include "base/secret.h"
#include "gateway/grpc_client.h"
#include "http/tls.h"
#include "rollout/grpc_client.h"

namespace ingot::app {
namespace {

absl::StatusOr<RpcAccess> AccessTo(const gateway::ModelOptions& model, bool allow_plaintext) {
  RpcAccess access;
  access.allow_plaintext = allow_plaintext;
  if (!model.ca.empty()) {
    INGOT_RETURN_IF_ERROR(http::CheckTrusted(model.ca));
    INGOT_ASSIGN_OR_RETURN(access.ca, base::ReadFile(model.ca));
  }
  if (model.token_file.empty()) return access;
  INGOT_ASSIGN_OR_RETURN(access.token, base::ReadSecret(model.token_file));
  const absl::Status reach = CheckReach(model.address, access);
  if (!reach.ok()) return base::Annotate(reach, "a token needs a ca");
  return access;
}

}  // namespace

int RolePort(const ClusterOptions& cluster, const std::string& role, int index) {
  if (role == "datapool") return cluster.datapool_port == 0 ? 0 : cluster.datapool_port + index;
  if (role == "scheduler") return cluster.scheduler_port;
  if (role == "rewards") return cluster.rewards_port;
  if (role == "gateway") return cluster.gateway_port == 0 ? 0 : cluster.gateway_port + index;
  return cluster.rollout_port == 0 ? 0 : cluster.rollout_port + index;
}

std::string AtHost(const ClusterOptions& cluster, int port) { return absl::StrCat(OwnHost(cluster), ":", port); }

int MetricsPort(const RunConfig& config, const std::string& role, int index) {
  if (config.metrics.port == 0) return 0;
  const int all_end = config.metrics.port + MetricsPorts(config);
  if (role == "rewards") return all_end - 1;
  const int pools_end = all_end - (config.cluster.rewards_role ? 1 : 0);
  if (role == "datapool" && index > 0) return pools_end - config.cluster.datapools + index;
  const int gateways_end = pools_end - (config.cluster.datapools - 1);
  if (role == "gateway" && index > 0) return gateways_end - config.cluster.gateways + index;
  static const char* const kOrder[] = {"datapool", "scheduler", "gateway", "trainer", "agents", "rollout"};
  const auto number = std::find(std::begin(kOrder), std::end(kOrder), role) - std::begin(kOrder);
  return config.metrics.port + static_cast<int>(number) + index;
}

int MetricsPorts(const RunConfig& config) {
  return 5 + config.cluster.rollout_engines + (config.cluster.gateways - 1) + (config.cluster.datapools - 1) +
         (config.cluster.rewards_role ? 1 : 0);
}

v1::RoleChannel ConnectPool(RunRegistry& registry, int datapools) {
  if (datapools == 1) return registry.To("datapool");
  std::vector<std::string> names;
  for (int i = 0; i < datapools; ++i) names.push_back(RoleName("datapool", i));
  std::rotate(names.begin(), names.begin() + getpid() % datapools, names.end());
  return registry.ToAny(std::move(names));
}

std::vector<v1::RoleChannel> ConnectGateways(RunRegistry& registry, int gateways) {
  std::vector<v1::RoleChannel> channels;
  for (int i = 0; i < gateways; ++i) channels.push_back(registry.To(RoleName("gateway", i)));
  return channels;
}

Gateways ClientsOfGateways(RunRegistry& registry, int gateways, std::chrono::milliseconds deadline) {
  Gateways clients;
  for (int i = 0; i < gateways; ++i) {
    const std::string name = RoleName("gateway", i);
    clients.emplace_back(name, gateway::NewGrpcClient(registry.To(name), deadline));
  }
  return clients;
}

std::shared_ptr<rollout::EngineSet> ConnectEngines(RunRegistry& registry, int engines,
                                                   const rollout::RouterOptions& router) {
  std::vector<std::shared_ptr<rollout::Client>> clients;
  for (int i = 0; i < engines; ++i) clients.push_back(rollout::NewGrpcClient(registry.To(RoleName("rollout", i))));
  auto set = std::make_shared<rollout::EngineSet>(std::move(clients), base::Clock::Real(), router);
  registry.OnRole("rollout", [weak = std::weak_ptr(set), engines, &registry](const std::string& name) {
    const auto joined = weak.lock();
    if (EngineNumber(name).value_or(0) < engines || joined == nullptr) return;
    INGOT_LOG(info, "{} has joined", name);
    joined->Add(rollout::NewGrpcClient(registry.To(name)));
  });
  return set;
}

std::optional<int> EngineNumber(const std::string& name) {
  constexpr std::string_view kPrefix = "rollout-";
  int number = 0;
  if (!name.starts_with(kPrefix) || !absl::SimpleAtoi(name.substr(kPrefix.size()), &number)) return std::nullopt;
  return number;
}

absl::StatusOr<std::map<std::string, std::shared_ptr<rollout::Client>>> ConnectExternalModels(
    const gateway::GatewayOptions& gateway, bool allow_plaintext) {
  std::map<std::string, std::shared_ptr<rollout::Client>> clients;
  for (const gateway::ModelOptions& model : gateway.models) {
    if (model.weights != gateway::ModelWeights::kExternal || !model.url.empty()) continue;
    const std::string key = absl::StrCat("gateway.models ('", model.name, "')");
    absl::StatusOr<RpcAccess> access = AccessTo(model, allow_plaintext);
    if (!access.ok()) return base::Annotate(access.status(), key);
    access->token_key = absl::StrCat("token_file of ", key);
    clients[model.name] = rollout::NewGrpcClient(Connect(model.address, *access));
  }
  return clients;
}

}  // namespace ingot::app
