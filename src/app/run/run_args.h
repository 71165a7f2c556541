// Declares the arguments shared by all commands that read a configuration.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RunArgs {
  std::string config;                  // run.yaml
  std::vector<std::string> overrides;  // KEY=VALUE
  bool resume = false;
  int token_fd = -1;  // descriptor with the run's token (run_secrets.h); -1 = use cluster.token_file
};

}  // namespace ingot::app
