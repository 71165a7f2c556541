// `ingot regrade`.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RegradeArgs {
  std::string run_dir;
  std::vector<std::string> overrides;  // KEY=VALUE, such as rewards.terms=[...]
  bool json = false;
};
int Regrade(const RegradeArgs& args);

}  // namespace ingot::app
