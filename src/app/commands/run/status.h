// `ingot status` prints the state of a launched run.
#pragma once

#include "app/run/run_args.h"

namespace ingot::app {

struct StatusArgs {
  RunArgs run;
  bool json = false;
};
int ShowStatus(const StatusArgs& args);

}  // namespace ingot::app
