// `ingot regrade`: scores a run's stored groups again with other reward terms.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct RegradeArgs {
  std::string run_dir;
  std::vector<std::string> overrides;  // KEY=VALUE overrides, such as rewards.terms=[...]
  bool json = false;
};
int Regrade(const RegradeArgs& args);

}  // namespace ingot::app
