// Servers that a run's record is sent to. Empty URLs = to none.
#pragma once

#include <string>

namespace ingot::app {

struct LoggerOptions {
  std::string mlflow_url, mlflow_experiment = "ingot", mlflow_key_file;
  std::string trackio_url, trackio_project = "ingot", trackio_key_file;
  std::string otlp_url, otlp_key_file;
};

}  // namespace ingot::app
