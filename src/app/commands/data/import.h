// `ingot import`: converts ATIF trajectories to episodes in a pool.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_args.h"

namespace ingot::app {

struct ImportArgs {
  RunArgs run;                     // specifies the run folder, tokenizer, and chat format
  std::vector<std::string> files;  // ATIF files: one JSON object per file, or JSON Lines
};
int Import(const ImportArgs& args);

}  // namespace ingot::app
