// `ingot eval`: evaluates a checkpoint on a configuration's held-out tasks, with one or several scaffolds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/run/run_args.h"

namespace ingot::app {

struct EvaluateArgs {
  std::string checkpoint;
  RunArgs run;
  std::vector<std::string> scaffolds;     // recipes, each on all tasks, one after another; empty = the run's mix
  std::vector<int64_t> pass;              // pass@K in the table; empty = the smallest and the largest power of two
  std::vector<std::string> requirements;  // view/evaluation/requirement.h
  bool json = false;
};

// Returns the exit code: 0 if the evaluations ran and their figures meet the requirements.
int Evaluate(const EvaluateArgs& args);

}  // namespace ingot::app
