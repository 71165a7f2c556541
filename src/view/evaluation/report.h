// Renders a run, or a comparison of runs, as a single HTML file without scripts, other files, or network access. Text
// from models, agents, and tasks is escaped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer/tokenizer.h"
#include "view/evaluation/comparison.h"
#include "view/evaluation/evaluation.h"
#include "view/rows.h"
#include "view/runs/journal.h"

namespace ingot::view {

struct ReportInput {
  std::string name;    // the run's name
  std::string config;  // its effective configuration, in YAML
  const Rows* rows = nullptr;
  const Journal* journal = nullptr;
  datapool::Client* pool = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  const Rows* warm_start = nullptr;  // its warm start's record; null = none
  std::string no_pool = {};          // why the run has no pool; if set, `pool` and `journal` are not used
};

// Renders metrics, curves, evaluations with intervals, a time breakdown, and the best and worst trajectories in the
// last batch. For a run without a pool, renders only the metrics in its records. Errors come from the pool.
absl::StatusOr<std::string> ReportHtml(const ReportInput& run);

// Returns the table of CompareText as HTML, with the runs' curves on shared axes.
std::string CompareHtml(const std::vector<ComparedRun>& runs);

}  // namespace ingot::view
