// Runs supervised training: cross entropy on data.sft, followed by DPO on data.dpo. This comes before reinforcement
// learning (the warm start) or replaces it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/status.h"
#include "trainer/trainer.h"

namespace ingot::app {

// Sends rank 0's starting point to the other ranks: a checkpoint, or empty = NewTrainer. Does nothing if `ranks` is
// null (one rank).
absl::Status BroadcastStart(trainer::Ranks* ranks, const std::string& checkpoint);

// Creates a trainer at version 0 with the configured weights. `ranks` is as in Trainer::Create.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> NewTrainer(const RunConfig& config, const ModelSetup& model,
                                                             trainer::Ranks* ranks = nullptr);

// Specifies where the stages report and store their results.
struct StageRecord {
  std::function<void(const std::string& text)> note;      // prints a line
  std::function<void(const std::string& text)> progress;  // prints a stage's progress (StepLine::Progress)
  std::string folder;  // folder for the run log, which gets one entry per optimizer step, counted across both stages
  std::string checkpoints;                 // folder for the stages' own checkpoints, from which they resume
  std::function<absl::Status()> on_start;  // called before the first step, after the data has been checked; may be null
  bool again = false;                      // true = resuming; entries logged after the last checkpoint are replaced
  base::Metrics* metrics = nullptr;        // gauges for the logged values; null = none
  const base::Clock* clock = &base::Clock::Real();
};

// Runs the stages that have data on `trainer` (if there are several ranks, on rank 0's). They use all threads in the
// budget, because nothing else runs at the same time. Returns CANCELLED once `stop` is set. Errors name the data
// file.
absl::Status RunStages(const RunConfig& config, const ModelSetup& model, trainer::Trainer& trainer,
                       const StageRecord& record, const std::atomic<bool>& stop);

// Returns whether the run in `dir`, which has no tasks, is complete. Returns the errors of LatestCheckpoint.
absl::StatusOr<bool> SupervisedIsDone(const RunDir& dir);

// Runs a complete run without tasks: trains the stages, records them in the run's folder, and saves the result as a
// checkpoint, which is a Hugging Face model folder. There is no gateway and there are no agents. A resumed run
// continues from its stages' newest checkpoint. If there are several ranks, rank 0 calls this function, and the others
// call FollowTraining (training.h). REQUIRES: the run is not complete yet.
absl::Status TrainSupervised(const RunConfig& config, const RunDir& dir, const ModelSetup& model, trainer::Ranks* ranks,
                             bool resume, base::Metrics& metrics, const std::atomic<bool>& stop);

}  // namespace ingot::app
