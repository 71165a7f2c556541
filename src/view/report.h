// A run, or a comparison of runs, as one HTML file: no script, no other files, nothing from the network. Text from
// models, agents and tasks is escaped.
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
  std::string name;    // of the run
  std::string config;  // its effective configuration, YAML
  const Rows* rows = nullptr;
  const Journal* journal = nullptr;
  datapool::Client* pool = nullptr;
  const text::Tokenizer* tokenizer = nullptr;
  const Rows* warm_start = nullptr;  // the record of its warm start; null = there was none
  std::string no_pool = {};          // why the run has no pool; then `pool` and `journal` are not read
};

// Figures, curves, evaluations with intervals, seconds by part, and the best and worst trajectories of the last batch.
// A run without a pool has only the figures of its records. Errors are the pool's.
absl::StatusOr<std::string> ReportHtml(const ReportInput& run);

// One run of a comparison.
struct ComparedRun {
  std::string name;
  const Rows* rows = nullptr;
  int64_t evaluated_version = -1;  // the newest; -1 = none
  double evaluated_mean = 0;       // as the record has it
  TaskRewards tasks = {};          // of that evaluation; empty = its trees are not stored
  const Rows* warm_start = nullptr;
  // The keys of its configuration that differ from the first run's, with both values as YAML.
  struct KeyDifference {
    std::string key, first, own;
  };
  std::vector<KeyDifference> differences = {};
};

// A table for a terminal: the reward of the last steps, the newest evaluation with its interval, and its difference
// from the first run, paired by task. Below it, a line for each supervised run has the figures of its newest step, and
// the keys follow in which the configurations differ.
std::string CompareText(const std::vector<ComparedRun>& runs);
// The same with the runs' curves on common axes.
std::string CompareHtml(const std::vector<ComparedRun>& runs);

}  // namespace ingot::view
