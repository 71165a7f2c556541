// The arguments that every command on a configuration takes.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RunArgs {
  std::string config;                  // run.yaml
  std::vector<std::string> overrides;  // KEY=VALUE
  bool resume = false;
  int token_fd = -1;  // descriptor with the run's token (run_secrets.h); -1 = cluster.token_file names it
};

}  // namespace ingot::app
