// Formats evaluations as a table with a row for each scaffold and task set, for a terminal and as JSON. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "view/evaluation/eval_figures.h"
#include "view/evaluation/evaluation.h"

namespace ingot::view {

struct EvalRow {
  std::string scaffold;              // empty = the recipes as the run mixes them
  std::string set;                   // empty = all tasks
  int64_t tasks = 0, episodes = 0;   // without infrastructure failures
  int64_t samples = 0;               // of the task with the most
  Estimate reward;                   // avg@n: mean over tasks of the mean over samples, with its interval over tasks
  std::map<int64_t, Estimate> pass;  // pass@k by k, over the tasks with at least k samples
  double tokens = 0, turns = 0, seconds = 0;  // means over episodes
  std::optional<double> tool_errors;          // mean rate; nullopt = no episode has one
};

// Returns a row for each named set in name order, and one for all tasks unless a single set has all of them. `k`: as in
// PassesOf. Empty if no episode was added.
std::vector<EvalRow> EvalRows(const EvalFigures& figures, const std::string& scaffold, const std::vector<int64_t>& k);

// Returns a table with a header. It shows pass@k for the values in `k` or, if that is empty, for the smallest and
// largest k of all rows. Text from a configuration is made printable.
std::string EvalTableText(const std::vector<EvalRow>& rows, const std::vector<int64_t>& k);

// Returns the rows as objects, with every pass@k.
base::json::array EvalTableJson(const std::vector<EvalRow>& rows);

}  // namespace ingot::view
