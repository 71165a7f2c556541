// The HTTP server of a role that is a process of its own: it serves GET /metrics and nothing else.
#pragma once

#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "http/server.h"

namespace ingot::app {

class MetricsEndpoint final : public http::Handler {
 public:
  // `host`: an address, or a name of this machine. `port`: 0 = the system chooses. UNAVAILABLE names a port in use.
  // `metrics` outlives the endpoint.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const std::string& host, int port,
                                                                const base::Metrics& metrics);
  int port() const { return server_->port(); }

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  explicit MetricsEndpoint(const base::Metrics& metrics) : metrics_(metrics) {}

  const base::Metrics& metrics_;
  std::unique_ptr<http::Server> server_;  // last: it is stopped first
};

}  // namespace ingot::app
