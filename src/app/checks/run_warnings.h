// Warnings about valid settings and results that are probably not intended. Each is one line: the fact, its number and
// a fix. They never stop a run. Pure. run_warnings.cc has two tables, for the run's start and its end;
// loss_warnings.cc has the warnings about the loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/checks/summary.h"
#include "app/run/run_config.h"

namespace ingot::app {

// The data files, as far as warnings need them.
struct DataFacts {
  int64_t tasks = 0;          // training tasks; 0 = not known
  int64_t eval_tasks = 0;     // held-out tasks
  int64_t left_out = 0;       // tasks of a Harbor folder that do not run here; not in `tasks`
  int64_t eval_left_out = 0;  // not in `eval_tasks`
  int64_t shared = 0;         // held-out tasks with the content of a training task, apart from the id
  std::string shared_id;      // the id of one such task
  int64_t shown_tokens = 0;   // of the shortest text that a recipe shows its agent; 0 = not known
  int64_t context = 0;        // greatest number of tokens of a prompt and its answer; 0 = not known
  int64_t parameters = 0;     // numbers in the weights of model.path; 0 = not known
};

// Known before the run's first step, and before its warm start.
std::vector<std::string> StartWarnings(const RunConfig& config, const DataFacts& data);

// Known once the run has ended. Of steps before `tally`'s process only the rewards count.
std::vector<std::string> EndWarnings(const RunConfig& config, const RunTally& tally);

}  // namespace ingot::app
