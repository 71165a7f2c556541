// `ingot inspect`.
#pragma once

#include <optional>
#include <string>

namespace ingot::app {

struct InspectArgs {
  std::string run_dir;
  std::string episode;       // id or group/sample; empty = a list
  std::optional<int> limit;  // episodes of each kind; 0 = all. Empty = 20 in the printed list, all as JSON
  bool json = false;
  bool journal = false;  // the run's journal, one JSON record per line
};
int Inspect(const InspectArgs& args);

}  // namespace ingot::app
