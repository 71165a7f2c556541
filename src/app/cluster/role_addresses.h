// Where a launched run's roles listen, and clients to them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "app/cluster/run_registry.h"
#include "app/run/run_config.h"
#include "app/run/uncalled_episodes.h"
#include "base/status.h"
#include "rollout/client.h"

namespace ingot::app {

// The configured port of a role's gRPC service; 0 = a free one.
int RolePort(const ClusterOptions& cluster, const std::string& role, int index);
// HOST:PORT of OwnHost.
std::string AtHost(const ClusterOptions& cluster, int port);

// The port of a role's /metrics under `ingot launch`: metrics.port + its number (datapool 0, scheduler 1, gateway 2,
// trainer 3, agents 4, engine i 5 + i, after the engines more gateways, more pools, and last the role rewards). 0 = no
// port: metrics.port is 0.
int MetricsPort(const RunConfig& config, const std::string& role, int index);
// The number of such ports of all roles.
int MetricsPorts(const RunConfig& config);

// A channel to one of the processes that serve the pool (RunRegistry::ToAny). It spreads callers over them.
v1::RoleChannel ConnectPool(RunRegistry& registry, int datapools);

// Channels to all gateways, in the order of their numbers.
std::vector<v1::RoleChannel> ConnectGateways(RunRegistry& registry, int gateways);

// Clients of all gateways, each by its name, whose calls take at most `deadline`.
Gateways ClientsOfGateways(RunRegistry& registry, int gateways, std::chrono::milliseconds deadline);

// One client over all engines (rollout/engine_set.h): the configured engines, and each engine that joins later.
std::shared_ptr<rollout::Client> ConnectEngines(RunRegistry& registry, int engines);

// The number of an engine by its role's name; nullopt: the role is not an engine.
std::optional<int> EngineNumber(const std::string& name);

// Clients of the servers of external models, by model name. `allow_plaintext`: ClusterOptions::allow_plaintext. INVALID_ARGUMENT: a file of a token or of
// certificates cannot be read. FAILED_PRECONDITION: a token would go over an open network without TLS.
absl::StatusOr<std::map<std::string, std::shared_ptr<rollout::Client>>> ConnectExternalModels(
    const gateway::GatewayOptions& gateway, bool allow_plaintext);

}  // namespace ingot::app
