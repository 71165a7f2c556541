// Warns about valid settings and results that are probably unintended. Each warning is one line with the fact, its
// value, and a fix. Warnings never stop a run. Pure. run_warnings.cc has one table for the start of a run and one for
// its end. loss_warnings.cc has the warnings about the loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/checks/summary.h"
#include "app/run/run_config.h"

namespace ingot::app {

// Facts about the data files that the warnings use.
struct DataFacts {
  int64_t tasks = 0;          // training tasks; 0 = unknown
  int64_t eval_tasks = 0;     // held-out tasks
  int64_t left_out = 0;       // Harbor tasks that cannot run here; not included in `tasks`
  int64_t eval_left_out = 0;  // same as left_out, but for held-out tasks; not included in `eval_tasks`
  int64_t shared = 0;         // held-out tasks that are identical to a training task except for the id
  std::string shared_id;      // the id of one such task
  int64_t shown_tokens = 0;   // tokens in the shortest prompt that a recipe shows its agent; 0 = unknown
  int64_t context = 0;        // maximum tokens in a prompt and its answer; 0 = unknown
  int64_t parameters = 0;     // number of weights in model.path; 0 = unknown
};

// Returns the warnings that are known before the run's warm start and first step.
std::vector<std::string> StartWarnings(const RunConfig& config, const DataFacts& data);

// Returns the warnings that are known after the run has ended. Steps from before this process started contribute only
// their rewards.
std::vector<std::string> EndWarnings(const RunConfig& config, const RunTally& tally);

}  // namespace ingot::app
