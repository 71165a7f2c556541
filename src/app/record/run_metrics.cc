#include "app/record/run_metrics.h"

#include <utility>

#include "base/log.h"
#include "gateway/options.h"

namespace ingot::app {

std::string MetricsSocket(const RunDir& dir, const std::string& name) {
  return absl::StrCat(dir.sockets(), "/metrics-", name, ".sock");
}

absl::StatusOr<std::vector<std::unique_ptr<MetricsEndpoint>>> ServeMetrics(const RunConfig& config, const RunDir& dir,
                                                                           const std::string& name, int port,
                                                                           const MetricsEndpoint::Text& text,
                                                                           const MetricsEndpoint::Text& waits) {
  std::vector<std::unique_ptr<MetricsEndpoint>> endpoints;
  auto file = MetricsEndpoint::OnSocket(MetricsSocket(dir, name), text, waits);
  if (file.ok()) {
    endpoints.push_back(*std::move(file));
  } else {
    INGOT_LOG(warn, "{}", std::string(file.status().message()));
  }
  if (port == 0) return endpoints;
  http::Options options;
  options.host = config.metrics.host;
  options.port = port;
  options.tls_certificate = config.http.tls_certificate;
  options.tls_key = config.http.tls_key;
  options.allow_plaintext = config.http.allow_plaintext;
  options.allow_hosts = config.http.allow_hosts;
  options.allow_origins = config.http.allow_origins;
  INGOT_ASSIGN_OR_RETURN(std::string key, gateway::ReadAdminKey(config.gateway));
  auto address = MetricsEndpoint::AtAddress(std::move(options), std::move(key), text);
  if (!address.ok()) return base::Annotate(address.status(), "metrics.port");
  endpoints.push_back(*std::move(address));
  return endpoints;
}

}  // namespace ingot::app
