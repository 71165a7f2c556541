// The record of a run, RUN/metrics.jsonl, at its start: a resumed run continues it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/checks/summary.h"
#include "app/run/persist.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/terminal/terminal.h"
#include "base/metrics.h"
#include "base/run_log.h"
#include "base/status.h"

namespace ingot::app {

// Results in the record that the run continues.
struct RecordedRows {
  std::vector<double> rewards;          // the first figure of the steps
  std::vector<Curve> curves;            // the other figures
  std::map<int64_t, double> evaluated;  // eval/reward_mean by version
};

// A step without a figure has NaN.
RecordedRows ReadRecord(const std::string& path, const Figures& figures = kReward);

// Opens it at the run's first step. A resumed run waits while its disk is full, as at every later write; a
// new run fails at once. `metrics` outlives the log.
absl::StatusOr<std::unique_ptr<base::RunLog>> OpenRecord(const RunConfig& config, const RunDir& dir, bool resume,
                                                         int64_t first_step, base::Metrics& metrics,
                                                         const RetryPolicy& retry);

}  // namespace ingot::app
