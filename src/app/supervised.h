// Supervised training, before a reinforcement run (its warm start) or instead of one: first cross entropy on data.sft,
// then DPO on data.dpo.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "app/model_setup.h"
#include "app/run_config.h"
#include "app/run_dir.h"
#include "base/metrics.h"
#include "base/status.h"
#include "trainer/trainer.h"

namespace ingot::app {

// Rank 0 says what all ranks start from: a checkpoint, or (empty) NewTrainer's. Nothing with one rank (null).
absl::Status TellStart(trainer::Ranks* ranks, const std::string& checkpoint);

// At version 0 with the weights that the configuration names. `ranks`: Trainer::Create.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> NewTrainer(const RunConfig& config, const ModelSetup& model,
                                                             trainer::Ranks* ranks = nullptr);

// Where the stages are told of.
struct StageRecord {
  std::function<void(const std::string& text)> note;  // a line for people
  std::string folder;                // of the run log: an entry for every optimizer step, counted over both stages
  std::string checkpoints;           // folder of the stages' own checkpoints, from which they go on
  bool again = false;                // an earlier start may have left entries; those after its checkpoints are replaced
  base::Metrics* metrics = nullptr;  // the log's gauges; null: none
};

// Runs the stages that have data on `trainer`, of ranks on rank 0's. Nothing else computes meanwhile: they take all
// threads of the budget. CANCELLED once `stop` is set; errors name the data file.
absl::Status RunStages(const RunConfig& config, const ModelSetup& model, trainer::Trainer& trainer,
                       const StageRecord& record, const std::atomic<bool>& stop);

// Whether the run without tasks in `dir` has come to its end, and nothing is left to do. Errors as LatestCheckpoint.
absl::StatusOr<bool> SupervisedIsDone(const RunDir& dir);

// A run without tasks: the stages, their record in the run's folder, and the result as a checkpoint, which is a Hugging
// Face model folder. No gateway, no agents. A run that is resumed goes on from its stages' newest checkpoint. Of
// several ranks this is the first one's part, the others FollowTraining (training.h). REQUIRES: it is not done.
absl::Status TrainSupervised(const LoadedConfig& loaded, const RunDir& dir, const ModelSetup& model,
                             trainer::Ranks* ranks, bool resume, base::Metrics& metrics, const std::atomic<bool>& stop);

}  // namespace ingot::app
