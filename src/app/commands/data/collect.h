// `ingot collect`: runs a configuration's recipes on its training tasks, without training.
#pragma once

#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

struct CollectArgs {
  RunArgs run;
  std::string checkpoint;  // model folder; empty = the configuration's own model
  std::string model;       // an external model in gateway.models to use instead; empty = not used
  std::string script;      // file with scripted model responses (gateway/script.h); empty = a model generates them
  int samples = 10;        // samples per task
  double temperature = 1;
};
int Collect(const CollectArgs& args);

}  // namespace ingot::app
