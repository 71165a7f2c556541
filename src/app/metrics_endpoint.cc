#include "app/metrics_endpoint.h"

#include <prometheus/exposer.h>

#include <algorithm>
#include <exception>

namespace ingot::app {

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(const ClusterOptions& cluster,
                                                                        const std::string& role, int index,
                                                                        base::Metrics& metrics) {
  if (cluster.metrics_port == 0 || (role == "trainer" && index > 0)) return std::unique_ptr<MetricsEndpoint>();
  static const char* const kOrder[] = {"datapool", "scheduler", "gateway", "trainer", "agents", "rollout"};
  const auto number = std::find(std::begin(kOrder), std::end(kOrder), role) - std::begin(kOrder);
  const std::string address = absl::StrCat(cluster.host, ":", cluster.metrics_port + number + index);
  auto endpoint = std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint);
  try {
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", address, ": ", error.what()));
  }
  endpoint->collectable_ = std::shared_ptr<prometheus::Collectable>(&metrics.collectable(), [](auto*) {});
  endpoint->exposer_->RegisterCollectable(endpoint->collectable_);
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() = default;

}  // namespace ingot::app
