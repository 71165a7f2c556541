// Configures where a run's record is displayed and sent. The Bind functions declare each key with its meaning and
// bounds.
#pragma once

#include <cstdint>
#include <string>

#include "base/metrics.h"

namespace ingot::base {
class Schema;
}

namespace ingot::app {

// Servers that receive a run's record. Empty URL, or empty project of W&B = disabled.
struct LoggerOptions {
  std::string mlflow_url, mlflow_experiment = "ingot", mlflow_key_file;
  std::string trackio_url, trackio_project = "ingot", trackio_key_file;
  std::string otlp_url, otlp_key_file;
  std::string wandb_project, wandb_entity, wandb_mode = "auto", wandb_key_file;
};

// The run's web page. Uses the TLS settings in `http`.
struct PageOptions {
  bool enabled = true;
  std::string host = "127.0.0.1";
  int32_t port = 0;
};

// Prometheus endpoints: Unix sockets in the run's folder and, if a port is set, TCP for clients with the admin key.
struct MetricsConfig {
  std::string host = "127.0.0.1";
  int32_t port = 0;
  int32_t max_labels = base::Metrics::kDefaultMaxLabels;
};

void Bind(base::Schema& schema, LoggerOptions& options);
void Bind(base::Schema& schema, PageOptions& options);
void Bind(base::Schema& schema, MetricsConfig& options);

}  // namespace ingot::app
