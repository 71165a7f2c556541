// `ingot launch` starts a run with the configured launcher, and `ingot status` prints its state.
#pragma once

#include "app/run/run_args.h"

namespace ingot::app {

struct LaunchArgs {
  RunArgs run;
  bool dry_run = false;  // only prints what would start
};
int Launch(const LaunchArgs& args);

struct StatusArgs {
  RunArgs run;
  bool json = false;
};
int ShowStatus(const StatusArgs& args);

}  // namespace ingot::app
