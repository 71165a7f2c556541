// The metrics and waits of one process of a run, and their endpoints: a socket file RUN/sockets/metrics-NAME.sock and,
// with metrics.port, a TCP port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/record/metrics_endpoint.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"

namespace ingot::app {

// The socket file of a process.
std::string MetricsSocket(const RunDir& dir, const std::string& name);

// `name`: the process within the run, such as "gateway" or "rollout-0". `port`: 0 = no TCP. A socket file that cannot
// be made is only logged, since a network folder may not support them; a configured port that is not available is an
// error. `waits`: of the socket file (MetricsEndpoint::OnSocket). The endpoints end with the vector.
absl::StatusOr<std::vector<std::unique_ptr<MetricsEndpoint>>> ServeMetrics(
    const RunConfig& config, const RunDir& dir, const std::string& name, int port, const MetricsEndpoint::Text& text,
    const MetricsEndpoint::Text& waits = nullptr);

}  // namespace ingot::app
