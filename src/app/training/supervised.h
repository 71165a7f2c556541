// Supervised training: first cross entropy on data.sft, then DPO on data.dpo. It runs before a reinforcement run (the
// warm start) or instead of one.
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

// Rank 0 sends the others the trainer's start: a checkpoint, or empty = NewTrainer. Null (one rank) = does nothing.
absl::Status BroadcastStart(trainer::Ranks* ranks, const std::string& checkpoint);

// A trainer at version 0 with the weights that the configuration names. `ranks`: Trainer::Create.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> NewTrainer(const RunConfig& config, const ModelSetup& model,
                                                             trainer::Ranks* ranks = nullptr);

// The outputs of the stages.
struct StageRecord {
  std::function<void(const std::string& text)> note;      // prints a line
  std::function<void(const std::string& text)> progress;  // prints the stage's progress (StepLine::Progress)
  std::string folder;       // of the run log: an entry per optimizer step, counted over both stages
  std::string checkpoints;  // folder of the stages' own checkpoints, from which they continue
  std::function<absl::Status()>
      on_start;        // called before the first step, when the data has passed its checks; null = not
  bool again = false;  // true: an earlier start may have left entries; those after its checkpoints are replaced
  base::Metrics* metrics = nullptr;  // the log's gauges; null = none
  const base::Clock* clock = &base::Clock::Real();
};

// Runs on `trainer` the stages that have data; with several ranks `trainer` is rank 0's. Nothing else computes
// meanwhile, so they take all threads of the budget. CANCELLED once `stop` is set; errors name the data file.
absl::Status RunStages(const RunConfig& config, const ModelSetup& model, trainer::Trainer& trainer,
                       const StageRecord& record, const std::atomic<bool>& stop);

// Whether the run in `dir`, one without tasks, is complete. Errors as LatestCheckpoint.
absl::StatusOr<bool> SupervisedIsDone(const RunDir& dir);

// Runs a run without tasks: the stages, their record in the run's folder, and the result as a checkpoint, which is a
// Hugging Face model folder. It has no gateway and no agents. A resumed run continues from its stages' newest
// checkpoint. With several ranks, rank 0 calls it and the others FollowTraining (training.h). REQUIRES: the run is not
// complete.
absl::Status TrainSupervised(const RunConfig& config, const RunDir& dir, const ModelSetup& model, trainer::Ranks* ranks,
                             bool resume, base::Metrics& metrics, const std::atomic<bool>& stop);

}  // namespace ingot::app
