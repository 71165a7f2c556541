// A role's own /metrics, where it is its own process: prometheus-cpp's HTTP exposer.
#pragma once

#include <memory>
#include <string>

#include "app/run_config.h"
#include "base/metrics.h"
#include "base/status.h"

namespace prometheus {
class Exposer;
class Collectable;
}  // namespace prometheus

namespace ingot::app {

class MetricsEndpoint {
 public:
  // Port cluster.metrics_port + the role's number (datapool 0, scheduler 1, gateway 2, trainer 3, agents 4, engine i 5
  // + i). Null if the port is 0, and for ranks of the trainer other than 0. UNAVAILABLE names a port in use.
  // `metrics` must outlive it.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(const ClusterOptions& cluster, const std::string& role,
                                                                int index, base::Metrics& metrics);
  ~MetricsEndpoint();

 private:
  MetricsEndpoint() = default;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::shared_ptr<prometheus::Collectable> collectable_;
};

}  // namespace ingot::app
