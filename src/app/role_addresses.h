// The addresses of a launched run's roles, and clients to them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "app/grpc_access.h"
#include "app/run_config.h"
#include "base/status.h"
#include "rollout/client.h"

namespace ingot::app {

std::string DataPoolAddress(const ClusterOptions& cluster);
std::string SchedulerAddress(const ClusterOptions& cluster);
std::string GatewayAddress(const ClusterOptions& cluster);
std::string RolloutAddress(const ClusterOptions& cluster, int engine);

// The port of a role's /metrics under `ingot launch`: metrics.port + its number (datapool 0, scheduler 1, gateway 2,
// trainer 3, agents 4, engine i 5 + i). 0 = it has none: metrics.port is 0.
int MetricsPort(const MetricsConfig& metrics, const std::string& role, int index);

// One client over all engines (rollout/engine_set.h).
std::shared_ptr<rollout::Client> ConnectEngines(const ClusterOptions& cluster, const RpcAccess& access);

// Clients of the servers of the gateway's external models, by model name. INVALID_ARGUMENT: a file of a token or of
// certificates cannot be read. FAILED_PRECONDITION: a token would go over an open network without TLS.
absl::StatusOr<std::map<std::string, std::shared_ptr<rollout::Client>>> ConnectExternalModels(const RunConfig& config);

}  // namespace ingot::app
