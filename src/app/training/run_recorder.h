// Records a run's training steps and completed evaluations.
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
#include "app/training/lent_threads.h"
#include "app/training/mismatch_guard.h"
#include "app/training/training.h"
#include "base/json.h"
#include "base/run_log.h"
#include "base/status.h"
#include "trainer/loop.h"

namespace ingot::app {

// Returns the fields for a step's row in the record. Includes the report's metrics and `metrics`.
base::json::object StepFields(const trainer::StepReport& report, const std::map<std::string, double>& metrics);

// Writes steps and evaluations to the run log and the terminal and updates the run's tally. Not thread safe.
class RunRecorder final : public trainer::StepObserver {
 public:
  // `success` is EvalOptions::success, `max_mismatch` is as in MismatchGuard, and `start` is the clock time when the run
  // started. REQUIRES: all arguments outlive this object.
  RunRecorder(const TrainerParts& parts, base::RunLog& log, StepLine& line, RunTally& tally, Evaluations& evaluations,
              const BestModel& best, const RetryPolicy& retry, double success, double max_mismatch,
              std::chrono::nanoseconds start);

  absl::Status OnStep(const trainer::StepReport& report, const trainer::TrainBatch& batch) override;

  // Writes an evaluation's row. Its step is the evaluated version, no matter when the evaluation ended.
  Evaluations::Report OnEvaluation();

 private:
  // Adds the figures from view/evaluation/eval_figures.h. Returns CANCELLED if the run is stopped. The evaluation is then reported
  // after the run resumes. Any other pool error is logged, and the figures are omitted.
  absl::Status AddFigures(int64_t version, base::json::object& fields);
  // Adds the reward terms' metrics for the evaluation. Omits them if the terms cannot be applied.
  void AddGrades(int64_t version, base::json::object& fields);
  // Keeps the evaluated version if it is the best so far.
  absl::Status KeepIfBest(int64_t version, const v1::EvalStatusResponse& result);
  // Adds the mismatch of the engine that sampled the step's probe. Sets the engine aside at MismatchGuard's error, or
  // returns the error if it cannot be set aside.
  absl::Status CheckMismatch(int64_t step, std::map<std::string, double>& metrics);
  absl::Status SetAside(const std::string& engine, const absl::Status& why);
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
  const std::chrono::nanoseconds start_;  // clock time when the run started
  double record_seconds_ = 0;  // time to record the previous step: its row, and evaluations that ended with it
  EngineMetrics engine_;
  LentThreads lent_threads_;
  MismatchGuard guard_;
  double last_step_at_ = -1;
};

}  // namespace ingot::app
