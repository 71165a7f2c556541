// The trainer's role, in the run's process or its own: warm start or resume, the training loop, evaluations of
// retained versions, the run's record, and its goal.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/cluster/role_clients.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/training/eval_grades.h"
#include "base/metrics.h"
#include "base/status.h"
#include "trainer/parallel/ranks.h"
#include "weights/publisher.h"
#include "weights/stores/version_writer.h"

namespace ingot::app {

// The objects that the trainer works with.
struct TrainerParts {
  const RoleClients& clients;                           // pool, scheduler, and engine: it samples the probe
  weights::Publisher& publisher;                        // the caller adds its engines
  std::shared_ptr<const EvalGrades> eval_grades = {};   // null = evaluations have only the outcome
  trainer::Ranks* ranks = nullptr;                      // this process is rank 0 of them; null = one rank
  std::shared_ptr<weights::VersionWriter> writer = {};  // of versions that ranks store; null = they do not
  std::optional<weights::VersionStore> store = {};      // of rank 0; there if writer is
  // Called once, when the start version is live: agents may begin. May be null.
  std::function<absl::Status()> on_first_version = {};
};

// Blocks until total_steps are trained and the last evaluation is done. Returns whether the run met its goal; true
// without a goal. CANCELLED once `stop` is set.
absl::StatusOr<bool> RunTraining(const RunConfig& config, const RunDir& dir, const ModelSetup& model,
                                 const TrainerParts& parts, bool resume, base::Metrics& metrics,
                                 const std::atomic<bool>& stop);

// The part of a rank other than 0: takes part in rank 0's steps and checkpoints, including those of supervised stages.
// `store`: where the ranks store versions; empty = they do not.
// Blocks until rank 0's training is done.
absl::Status FollowTraining(const RunConfig& config, const RunDir& dir, const std::string& device,
                            trainer::Ranks& ranks, std::optional<weights::VersionStore> store);

}  // namespace ingot::app
