// Renders a run, or a comparison of runs, as a single HTML file without scripts, other files, or network access. Text
// from models, agents, and tasks is escaped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/tokenizer/tokenizer.h"
#include "view/evaluation.h"
#include "view/journal.h"
#include "view/rows.h"

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

// One run in a comparison.
struct ComparedRun {
  std::string name;
  const Rows* rows = nullptr;
  int64_t evaluated_version = -1;  // the newest evaluated version; -1 = none
  double evaluated_mean = 0;       // mean reward from the record
  TaskRewards tasks = {};          // from that evaluation; empty = its trees are not stored
  const Rows* warm_start = nullptr;
  // The configuration keys that differ from the first run, with both values as YAML.
  struct KeyDifference {
    std::string key, first, own;
  };
  std::vector<KeyDifference> differences = {};
};

// Returns a table for a terminal: the reward over the last steps, the newest evaluation with its interval, and its
// difference from the first run, paired by task. Below the table, each supervised run has a line with its newest step's
// metrics, followed by the configuration keys that differ.
std::string CompareText(const std::vector<ComparedRun>& runs);
// Returns the same comparison as HTML, with the runs' curves on shared axes.
std::string CompareHtml(const std::vector<ComparedRun>& runs);

}  // namespace ingot::view
