#include "app/role_addresses.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/secret.h"
#include "http/tls.h"
#include "rollout/engine_set.h"
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
  if (role == "datapool") return cluster.datapool_port;
  if (role == "scheduler") return cluster.scheduler_port;
  if (role == "gateway") return cluster.gateway_port;
  return cluster.rollout_port == 0 ? 0 : cluster.rollout_port + index;
}

std::string OwnHost(const ClusterOptions& cluster) { return cluster.host == "auto" ? MachineName() : cluster.host; }

std::string AtHost(const ClusterOptions& cluster, int port) { return absl::StrCat(OwnHost(cluster), ":", port); }

int MetricsPort(const MetricsConfig& metrics, const std::string& role, int index) {
  if (metrics.port == 0) return 0;
  static const char* const kOrder[] = {"datapool", "scheduler", "gateway", "trainer", "agents", "rollout"};
  const auto number = std::find(std::begin(kOrder), std::end(kOrder), role) - std::begin(kOrder);
  return metrics.port + static_cast<int>(number) + index;
}

std::shared_ptr<rollout::Client> ConnectEngines(RunRegistry& registry, int engines) {
  std::vector<std::shared_ptr<rollout::Client>> clients;
  for (int i = 0; i < engines; ++i) clients.push_back(rollout::NewGrpcClient(registry.To(RoleName("rollout", i))));
  if (clients.size() == 1) return clients.front();
  return std::make_shared<rollout::EngineSet>(std::move(clients), base::Clock::Real());
}

absl::StatusOr<std::map<std::string, std::shared_ptr<rollout::Client>>> ConnectExternalModels(const RunConfig& config) {
  std::map<std::string, std::shared_ptr<rollout::Client>> clients;
  for (const gateway::ModelOptions& model : config.gateway.models) {
    if (model.weights != gateway::ModelWeights::kExternal) continue;
    const std::string key = absl::StrCat("gateway.models ('", model.name, "')");
    absl::StatusOr<RpcAccess> access = AccessTo(model, config.cluster.allow_plaintext);
    if (!access.ok()) return base::Annotate(access.status(), key);
    access->token_key = absl::StrCat("token_file of ", key);
    clients[model.name] = rollout::NewGrpcClient(Connect(model.address, *access));
  }
  return clients;
}

}  // namespace ingot::app
