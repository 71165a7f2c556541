// `ingot eval`: evaluates a checkpoint on a configuration's held-out tasks.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_args.h"

namespace ingot::app {

struct EvaluateArgs {
  std::string checkpoint;
  RunArgs run;
  std::vector<std::string> requirements;  // view/evaluation/requirement.h
};

// Returns the exit code: 0 if the evaluation ran and its figures meet the requirements.
int Evaluate(const EvaluateArgs& args);

}  // namespace ingot::app
