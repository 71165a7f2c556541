// `ingot collect`.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

struct CollectArgs {
  RunArgs run;
  std::string checkpoint;  // model folder; empty = the configuration's own model
  std::string model;       // an external model of gateway.models to ask instead; empty = none
  std::string script;      // file with the calls' answers (gateway/script.h); empty = a model samples them
  int samples = 10;        // of each task
  double temperature = 1;
};
int Collect(const CollectArgs& args);

}  // namespace ingot::app
