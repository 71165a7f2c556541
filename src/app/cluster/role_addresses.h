// Determines the addresses where a launched run's roles listen, and creates clients for them.
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
#include "rollout/routing/engine_set.h"

namespace ingot::app {

// Returns the configured port for a role's gRPC service; 0 = any free port.
int RolePort(const ClusterOptions& cluster, const std::string& role, int index);
// Returns HOST:PORT with OwnHost as the host.
std::string AtHost(const ClusterOptions& cluster, int port);

// Returns the port for a role's /metrics under `ingot launch`, or 0 if metrics.port is 0. It is metrics.port plus the
// role's offset: datapool 0, scheduler 1, gateway 2, trainer 3, agents 4, engine i 5 + i. The engines are followed by
// additional gateways, additional pools, and the rewards role, in that order.
int MetricsPort(const RunConfig& config, const std::string& role, int index);
// Returns the number of metrics ports for all roles.
int MetricsPorts(const RunConfig& config);

// Returns a channel to one of the processes that serve the pool (RunRegistry::ToAny). Distributes callers across them.
v1::RoleChannel ConnectPool(RunRegistry& registry, int datapools);

// Returns channels to all gateways, in index order.
std::vector<v1::RoleChannel> ConnectGateways(RunRegistry& registry, int gateways);

// Returns clients for all gateways, with their names. A call takes at most `deadline`.
Gateways ClientsOfGateways(RunRegistry& registry, int gateways, std::chrono::milliseconds deadline);

// Returns one client for all engines: the configured ones, and each engine that joins later.
std::shared_ptr<rollout::EngineSet> ConnectEngines(RunRegistry& registry, int engines,
                                                   const rollout::RouterOptions& router);

// Returns an engine's index by its role name, or nullopt if the role is not an engine.
std::optional<int> EngineNumber(const std::string& name);

// Returns clients for the external model servers, by model name. `allow_plaintext` is ClusterOptions::allow_plaintext.
// Returns INVALID_ARGUMENT if a token or certificate file cannot be read, and FAILED_PRECONDITION if a token would be
// sent over an open network without TLS.
absl::StatusOr<std::map<std::string, std::shared_ptr<rollout::Client>>> ConnectExternalModels(
    const gateway::GatewayOptions& gateway, bool allow_plaintext);

}  // namespace ingot::app
