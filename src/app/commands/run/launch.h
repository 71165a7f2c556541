// `ingot launch` starts a run with the configured launcher.
#pragma once

#include "app/run/run_args.h"

namespace ingot::app {

struct LaunchArgs {
  RunArgs run;
  bool dry_run = false;  // only prints what would be started
};
int Launch(const LaunchArgs& args);

}  // namespace ingot::app
