// `ingot launch` and `ingot status`.
#pragma once

#include "app/run/run_args.h"

namespace ingot::app {

struct LaunchArgs {
  RunArgs run;
  bool dry_run = false;  // prints what would be started
};
int Launch(const LaunchArgs& args);

struct StatusArgs {
  RunArgs run;
  bool json = false;
};
int ShowStatus(const StatusArgs& args);

}  // namespace ingot::app
