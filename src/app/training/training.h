// The trainer's role, independent of what implements the seams: warm start or resume, the training loop, evaluations of
// retained versions, the run's record, and its goal.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/training/eval_grades.h"
#include "base/metrics.h"
#include "base/status.h"
#include "datapool/client.h"
#include "rollout/client.h"
#include "scheduler/client.h"
#include "trainer/parallel/ranks.h"
#include "weights/publisher.h"
#include "weights/stores/version_writer.h"

namespace ingot::app {

struct TrainingSeams {
  scheduler::Client* scheduler = nullptr;
  datapool::Client* pool = nullptr;
  rollout::Client* engine = nullptr;               // samples the probe, reports idle time
  weights::Publisher* publisher = nullptr;         // the caller adds its engines
  std::string device = "cpu";                      // torch's name of the trainer's device
  std::shared_ptr<const EvalGrades> eval_grades;   // null = evaluations have only the outcome
  trainer::Ranks* ranks = nullptr;                 // this process is rank 0 of them; null = one rank
  std::shared_ptr<weights::VersionWriter> writer;  // of versions that ranks store; null = they do not
  std::optional<weights::VersionStore> store;      // of rank 0; there if writer is
  // Called once, when the start version is live: agents may begin. May be null.
  std::function<absl::Status()> on_first_version;
};

struct TrainingResult {
  std::vector<double> rewards;  // reward/mean by step, resumed steps included
  bool goal_met = true;         // true without a goal
  std::string goal_text;        // one line with the goal and the result; empty = no goal
};

// Blocks until total_steps are trained and the last evaluation is done. CANCELLED once `stop` is set.
absl::StatusOr<TrainingResult> RunTraining(const LoadedConfig& loaded, const RunDir& dir, const TrainingSeams& seams,
                                           bool resume, base::Metrics& metrics, const std::atomic<bool>& stop);

// The part of a rank other than 0: takes part in rank 0's steps and checkpoints, including those of supervised stages.
// `store`: where the ranks store versions; empty = they do not.
// Blocks until rank 0's training is done.
absl::Status FollowTraining(const RunConfig& config, const RunDir& dir, const std::string& device,
                            trainer::Ranks& ranks, std::optional<weights::VersionStore> store);

}  // namespace ingot::app
