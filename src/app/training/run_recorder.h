// The record of a run, while it trains: each step, and each evaluation that has ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "app/checks/summary.h"
#include "app/run/persist.h"
#include "app/terminal/terminal.h"
#include "app/training/best_model.h"
#include "app/training/engine_metrics.h"
#include "app/training/evaluation.h"
#include "app/training/training.h"
#include "base/json.h"
#include "base/run_log.h"
#include "base/status.h"
#include "trainer/loop.h"

namespace ingot::app {

// The fields of a step's row in the record. `metrics`: the report's and the caller's.
base::json::object StepFields(const trainer::StepReport& report, const std::map<std::string, double>& metrics);

// Writes them to the run log and the terminal, and tallies the run. Not thread safe.
class RunRecorder final : public trainer::StepObserver {
 public:
  // `success`: EvalOptions::success. `start`: of the run, on the clock. All arguments must outlive it.
  RunRecorder(const TrainerParts& parts, base::RunLog& log, StepLine& line, RunTally& tally, Evaluations& evaluations,
              const BestModel& best, const RetryPolicy& retry, double success, std::chrono::nanoseconds start);

  absl::Status OnStep(const trainer::StepReport& report, const trainer::TrainBatch& batch) override;

  // Writes an evaluation's row. Its step is the evaluated version, whenever the evaluation ended.
  Evaluations::Report OnEvaluation();

 private:
  // Adds the figures of view/eval_figures.h. CANCELLED: the run is stopped; its next start reports the evaluation. Any
  // other error of the pool leaves them out, with a line in the log.
  absl::Status AddFigures(int64_t version, base::json::object& fields);
  // Adds the metrics of the reward terms for the evaluation. A term that cannot be applied leaves out its metrics.
  void AddGrades(int64_t version, base::json::object& fields);
  // Keeps the evaluated version if it is the best so far.
  absl::Status KeepIfBest(int64_t version, const v1::EvalStatusResponse& result);
  absl::Status Write(int64_t step, const base::json::object& fields);
  void Tally(const trainer::StepReport& report, const std::map<std::string, double>& metrics,
             const v1::FeedStats& feed);

  const TrainerParts& parts_;
  base::RunLog& log_;
  StepLine& line_;
  RunTally& tally_;
  Evaluations& evaluations_;
  const BestModel& best_;
  const RetryPolicy& retry_;
  const double success_;
  const std::chrono::nanoseconds start_;  // of the run, on the clock
  double record_seconds_ = 0;             // of the previous step: its row, and the evaluations that ended then
  EngineMetrics engine_;
  double last_step_at_ = -1;
};

}  // namespace ingot::app
