// Declares the arguments shared by all commands that read a configuration.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RunArgs {
  std::string config;                  // run.yaml
  std::vector<std::string> overrides;  // KEY=VALUE
  bool resume = false;
  int token_fd = -1;      // descriptor with the run's token (run_secrets.h); -1 = use cluster.token_file
  int device_place = -1;  // trainer rank that lost ranks before it: its place among the devices; -1 = DevicePlaceOf
};

}  // namespace ingot::app
