// `ingot import`.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_args.h"

namespace ingot::app {

struct ImportArgs {
  RunArgs run;                     // names the run folder, tokenizer and chat format
  std::vector<std::string> files;  // ATIF: a JSON object each, or JSON lines
};
int Import(const ImportArgs& args);

}  // namespace ingot::app
