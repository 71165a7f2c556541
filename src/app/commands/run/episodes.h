// `ingot episodes`: lists and ends open episodes of external clients that have made no call.
#pragma once

#include <string>
#include <vector>

namespace ingot::app {

struct EpisodesArgs {
  std::string run_dir;           // RUN
  bool json = false;             // for `list`
  std::vector<std::string> ids;  // for `end`, as are `all` and `key_file`
  bool all = false;
  std::string key_file;  // empty = the run's gateway.admin_key_file
};
int ListEpisodes(const EpisodesArgs& args);
int EndEpisodes(const EpisodesArgs& args);

}  // namespace ingot::app
