// Compares runs: the reward over their last steps, their newest evaluations with intervals, the difference from the
// first run, and the configuration keys that differ. Only ReadEvaluation reads a pool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "datapool/client.h"
#include "view/evaluation/evaluation.h"
#include "view/evaluation/paired_difference.h"
#include "view/rows.h"

namespace ingot::view {

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

// Sets the newest evaluation from `run.rows`, and its tasks from the pool; null = the run has no pool. Errors come from
// the pool.
absl::Status ReadEvaluation(datapool::Client* pool, ComparedRun& run);

// One run's metrics in a comparison. Intervals are 95% confidence intervals.
struct ComparedFigures {
  int64_t steps = 0;
  Estimate reward;                     // reward/mean over the last ten steps
  std::optional<Estimate> evaluation;  // over tasks; values < 2 = without an interval; nullopt = never evaluated
  std::optional<PairedDifference> difference;  // from `first`, paired by task; nullopt = no tasks are stored
};
// `first`: null = `run` is the first run.
ComparedFigures FiguresOf(const ComparedRun& run, const ComparedRun* first);

// Formats an estimate as "MEAN (LOW to HIGH)", without an interval as "MEAN", and without values as a dash.
std::string IntervalText(const Estimate& estimate);

// Returns a table for a terminal: the reward over the last steps, the newest evaluation with its interval, and its
// difference from the first run, paired by task. Below the table, each other run has a line that says whether its
// difference is real, also by set, and each supervised run has a line with its newest step's metrics, followed by the
// configuration keys that differ.
std::string CompareText(const std::vector<ComparedRun>& runs);

// Returns the same comparison as an object: {"runs": [{"name", "steps", "reward", "version", "evaluation", "passes",
// "difference", "sets", "keys"}]}. A difference is {"mean", "low", "high", "tasks", "p_value", "real", "only_first",
// "only_other"}, and "sets" has one for each set. What is unknown is null.
base::json::value CompareJson(const std::vector<ComparedRun>& runs);

}  // namespace ingot::view
