// `ingot retrain`: trains on a run's stored batches with another configuration.
#pragma once

#include <cstdint>
#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

struct RetrainArgs {
  std::string run_dir;  // the run whose stored batches to train on
  RunArgs run;
  int64_t steps = 0;  // maximum number of steps; 0 = all stored steps
};
int Retrain(const RetrainArgs& args);

}  // namespace ingot::app
