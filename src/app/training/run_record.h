// Reads and opens a run's record, RUN/metrics.jsonl, when the run starts. A resumed run appends to it.
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

// Results in a resumed run's record.
struct RecordedRows {
  std::vector<double> rewards;          // values of the first figure
  std::vector<Curve> curves;            // the other figures
  std::map<int64_t, double> evaluated;  // eval/reward_mean by version
};

// Reads the record. A figure that is missing from a step is NaN.
RecordedRows ReadRecord(const std::string& path, const Figures& figures = kReward);

// Opens the record before the run's first step. If the disk is full, a new run fails immediately, and a resumed run
// waits, as it does for all later writes. REQUIRES: `metrics` outlives the log.
absl::StatusOr<std::unique_ptr<base::RunLog>> OpenRecord(const RunConfig& config, const RunDir& dir, bool resume,
                                                         int64_t first_step, base::Metrics& metrics,
                                                         const RetryPolicy& retry);

}  // namespace ingot::app
