// `ingot inspect`: prints a run's recorded trajectories.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ingot::app {

struct InspectArgs {
  std::string run_dir;
  std::string episode;  // id or group/sample; empty = print a list
  std::optional<int>
      limit;  // maximum episodes per purpose; 0 = no limit, nullopt = 20 in the printed list, no limit in JSON
  // Filters for the list: the reward (LOW:HIGH or one number), the task's domain, the recipe, and either the optimizer
  // step that trained the group or the evaluated version.
  std::string reward, domain, scaffold;
  std::optional<int64_t> step;
  bool alternatives = false;  // prints each sampled token of `episode` with its recorded alternatives
  bool json = false;
  bool journal = false;  // prints the run's journal, one JSON record per line
};
int Inspect(const InspectArgs& args);

}  // namespace ingot::app
