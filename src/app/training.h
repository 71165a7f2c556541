// The trainer's role, whatever stands behind the seams: warm start or resume, the training loop, evaluation on pinned
// versions, the run's record, and whether its goal was met.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/run_config.h"
#include "app/run_dir.h"
#include "base/metrics.h"
#include "base/status.h"
#include "datapool/client.h"
#include "rollout/client.h"
#include "scheduler/client.h"
#include "trainer/parallel/ranks.h"
#include "weights/publisher.h"

namespace ingot::app {

struct TrainingSeams {
  scheduler::Client* scheduler = nullptr;
  datapool::Client* pool = nullptr;
  rollout::Client* engine = nullptr;        // samples the probe, reports idle time
  weights::Publisher* publisher = nullptr;  // its engines are added by the caller
  std::string device = "cpu";               // torch's name of where the trainer computes
  trainer::Ranks* ranks = nullptr;          // this is rank 0 of them; null: the only one
  // Called once, when the start version is live: agents may begin. May be null.
  std::function<absl::Status()> on_first_version;
};

struct TrainingResult {
  std::vector<double> rewards;  // reward/mean by step, resumed steps included
  bool goal_met = true;         // true without a goal
  std::string goal_text;        // what was promised and what came, one line; empty without a goal
};

// Blocks until total_steps are trained (and the last evaluation is done). CANCELLED once `stop` is set.
absl::StatusOr<TrainingResult> RunTraining(const LoadedConfig& loaded, const RunDir& dir, const TrainingSeams& seams,
                                           bool resume, base::Metrics& metrics, const std::atomic<bool>& stop);

// What a rank other than 0 does meanwhile: takes part in rank 0's steps and checkpoints, those of supervised stages
// (before a reinforcement run, or alone) included. Blocks until rank 0's training is done.
absl::Status FollowTraining(const RunConfig& config, const RunDir& dir, const std::string& device,
                            trainer::Ranks& ranks);

// The checkpoint that a run in `dir` continues from; 0 for a new run or one without a checkpoint.
absl::StatusOr<int64_t> ResumeStep(const RunDir& dir, bool resume);

}  // namespace ingot::app
