// `ingot inspect`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ingot::app {

struct InspectArgs {
  std::string run_dir;
  std::string episode;       // id or group/sample; empty = a list
  std::optional<int> limit;  // episodes of each kind; 0 = all. Empty = 20 in the printed list, all as JSON
  // Of a list: the reward, as LOW:HIGH or one number; the task's domain; the recipe; and the optimizer step that trained
  // the group, or the evaluated version.
  std::string reward, domain, scaffold;
  std::optional<int64_t> step;
  bool json = false;
  bool journal = false;  // the run's journal, one JSON record per line
};
int Inspect(const InspectArgs& args);

}  // namespace ingot::app
