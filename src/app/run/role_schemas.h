// Each role's part of the configuration schema: keys bound to the fields of its options. The long parts have separate
// files (gateway_schema.cc, agents_schema.cc, cluster_schema.cc, weights_schema.cc).
#pragma once

#include "app/run/run_config.h"

namespace ingot::app {

void BindSampling(base::Schema& schema, scheduler::SamplingOptions& options,
                  std::map<std::string, std::string>& domains);
void BindScheduler(base::Schema& schema, scheduler::SchedulerOptions& options);
void BindRollout(base::Schema& schema, rollout::EngineOptions& options);
void BindGateway(base::Schema& schema, gateway::GatewayOptions& options, http::Options& http, PageOptions& page);
void BindLoggers(base::Schema& schema, LoggerOptions& options);
void BindDataPool(base::Schema& schema, datapool::StoreOptions& options);
void BindWeights(base::Schema& schema, WeightsConfig& options);
void BindWeightTransport(base::Schema& schema, WeightTransportConfig& options);
void BindAgents(base::Schema& schema, agents::RunnerOptions& options);
// `require`: RunConfig::sandbox_require.
void BindSandbox(base::Schema& schema, sandbox::SubstrateOptions& options, std::string& require);
void BindCluster(base::Schema& schema, ClusterOptions& options);

// INVALID_ARGUMENT: weights.* keys that conflict. `engines`: their number.
absl::Status CheckWeightTransport(const WeightTransportConfig& options, int engines);
// INVALID_ARGUMENT: cluster.* keys that conflict.
absl::Status CheckCluster(const ClusterOptions& cluster);

}  // namespace ingot::app
