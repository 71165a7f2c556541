// `ingot serve --learn`: serves a run's model and trains it on the feedback of users who opted in.
#pragma once

#include "app/run/run_args.h"

namespace ingot::app {

int ServeAndLearn(const RunArgs& args);

}  // namespace ingot::app
