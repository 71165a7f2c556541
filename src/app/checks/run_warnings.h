// Warnings: settings and results that are allowed, and yet are rarely meant. Each is one line for people: the fact, its
// figure, and a way on. They stop nothing. Pure. run_warnings.cc has two tables, of
// a run's start and of its end; loss_warnings.cc has the warnings about the loss.
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
  int64_t left_out = 0;       // tasks of a Harbor folder that do not run here, beside `tasks`
  int64_t eval_left_out = 0;  // beside `eval_tasks`
  int64_t shared = 0;         // held-out tasks whose content, apart from their id, is that of a training task
  std::string shared_id;      // id of one of them
  int64_t shown_tokens = 0;   // of the shortest text that a recipe shows its agent; 0 = not known
  int64_t context = 0;        // greatest number of tokens of a prompt and its answer; 0 = not known
  int64_t parameters = 0;     // numbers in the weights of model.path; 0 = not known
};

// Known before the run's first step, and before its warm start.
std::vector<std::string> StartWarnings(const RunConfig& config, const DataFacts& data);

// Known once the run has ended. Steps before `tally`'s process count by their rewards alone.
std::vector<std::string> EndWarnings(const RunConfig& config, const RunTally& tally);

}  // namespace ingot::app
