// `ingot retrain`.
#pragma once

#include <cstdint>
#include <string>

#include "app/run/run_args.h"

namespace ingot::app {

struct RetrainArgs {
  std::string run_dir;  // whose stored batches are trained on
  RunArgs run;
  int64_t steps = 0;  // greatest number of steps; 0 = as many as are stored
};
int Retrain(const RetrainArgs& args);

}  // namespace ingot::app
