// Serves a process's metrics, and what it is waiting for, on the Unix socket RUN/sockets/metrics-NAME.sock. If
// metrics.port is set, also serves the metrics on a TCP port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/record/metrics_endpoint.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"

namespace ingot::app {

// Returns the path of a process's socket.
std::string MetricsSocket(const RunDir& dir, const std::string& name);

// `name` is the process's name in the run, such as "gateway" or "rollout-0". `port` 0 = no TCP. Failure to create the
// socket is only logged, because network file systems may not support sockets. Fails if a configured port is not
// available. `waits` is served on the socket (MetricsEndpoint::OnSocket). Destroying the vector stops the endpoints.
absl::StatusOr<std::vector<std::unique_ptr<MetricsEndpoint>>> ServeMetrics(
    const RunConfig& config, const RunDir& dir, const std::string& name, int port, const MetricsEndpoint::Text& text,
    const MetricsEndpoint::Text& waits = nullptr);

}  // namespace ingot::app
