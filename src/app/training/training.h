// Runs the trainer role, in the run's process or its own: warm start or resume, the training loop, evaluations of
// retained versions, the run's record, and its goal.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/cluster/role_clients.h"
#include "app/models/model_setup.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/training/eval_grades.h"
#include "app/training/shared_device.h"
#include "base/metrics.h"
#include "base/status.h"
#include "kernels/compute_share.h"
#include "trainer/parallel/ranks.h"
#include "weights/publisher.h"
#include "weights/stores/version_writer.h"

namespace ingot::app {

// The objects that the trainer uses.
struct TrainerParts {
  const RoleClients& clients;                           // pool, scheduler, and the engine, which samples the probe
  weights::Publisher& publisher;                        // the caller adds the engines
  std::shared_ptr<const EvalGrades> eval_grades = {};   // null = evaluations only report the outcome
  trainer::Ranks* ranks = nullptr;                      // this process is rank 0; null = one rank
  std::shared_ptr<weights::VersionWriter> writer = {};  // writes versions if the ranks store them; null = they do not
  std::optional<weights::VersionStore> store = {};      // rank 0's store; set if `writer` is
  // Called once when the first version is live, so that agents can start. May be null.
  std::function<absl::Status()> on_first_version = {};
  std::shared_ptr<kernels::ComputeMember> compute = {};  // null = threads are not lent
  std::vector<ParkedEngine> parked = {};                 // with cluster.placement shared
};

// Blocks until total_steps steps have been trained and the last evaluation is done. Returns whether the run met its
// goal, or true if it has none. Returns CANCELLED once `stop` is set.
absl::StatusOr<bool> RunTraining(const RunConfig& config, const RunDir& dir, const ModelSetup& model,
                                 const TrainerParts& parts, bool resume, base::Metrics& metrics,
                                 const std::atomic<bool>& stop);

// Runs a rank other than 0. Participates in rank 0's steps and checkpoints, including those of supervised stages.
// `store` is where the ranks store versions; nullopt = they do not. Blocks until rank 0's training is done.
absl::Status FollowTraining(const RunConfig& config, const RunDir& dir, const std::string& device,
                            trainer::Ranks& ranks, std::optional<weights::VersionStore> store);

}  // namespace ingot::app
