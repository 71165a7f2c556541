// The folder of an evaluation by `ingot eval`: ROOT/NAME-eval/CHECKPOINT, or CHECKPOINT@SCAFFOLD for one scaffold. Its
// evaluation.json names the checkpoint and, after the evaluation, has its metrics. Its metrics.jsonl has them as a run's
// record, so that `ingot compare`, `report`, and `view` read the folder like a run.
#pragma once

#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/json.h"
#include "base/status.h"
#include "view/evaluation/requirement.h"

namespace ingot::app {

// Opens the folder. Only replaces an earlier evaluation of the same checkpoint, an absolute path. Returns ALREADY_EXISTS
// if there is a run or another checkpoint's evaluation.
absl::StatusOr<RunDir> OpenEvaluation(const RunConfig& config, const std::string& checkpoint,
                                      const std::string& scaffold);

// Writes evaluation.json without metrics, so that the folder counts as the checkpoint's before the evaluation ends.
absl::Status BeginEvaluation(const RunDir& dir, const base::json::object& record);

// Writes evaluation.json and metrics.jsonl.
absl::Status WriteEvaluation(const RunDir& dir, const base::json::object& record);

// Returns the record's metrics.
view::Figures FiguresIn(const base::json::object& record);

// Returns the complete evaluations of other checkpoints next to `dir`, by the same scaffold and on as many tasks and
// samples as `record`. Others cannot be compared.
std::vector<view::EarlierEvaluation> EarlierEvaluations(const RunDir& dir, const base::json::object& record);

}  // namespace ingot::app
