// Runs one supervised stage of a trainer (sft.h), SFT or DPO. Its steps are RL steps with a different objective and a
// fresh optimizer. Every rank has one StageRun. All ranks call Begin, Step, Save, and End together: rank 0's call sends
// an order, and the other ranks then make the same call (rank_orders.h).
//
//   rank 0   Begin ─▶ Step ─▶ Step ─▶ Save ─▶ ... ─▶ End      StageLoop reads, observes, decides (stage_loop.h)
//              │       │       │       │               │
//   rank 1   Begin ─▶ Step ─▶ Step ─▶ Save ─▶ ... ─▶ End      gets each step's calls
//
// During the stage, rank 0 has whole versions, because a stage does not publish versions. End returns the trainer to
// its normal state: all parameters on every rank, a fresh optimizer for the RL stage, and the stage's result as the
// initial reference policy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "trainer/batch.h"
#include "trainer/checkpoints/checkpoint.h"
#include "trainer/metrics.h"
#include "trainer/objectives/objective.h"
#include "trainer/options.h"
#include "trainer/parallel/rank_orders.h"
#include "trainer/parallel/ranks.h"
#include "trainer/parallel/step_exchanges.h"
#include "trainer/policy/policy.h"
#include "trainer/step/bound_meter.h"
#include "trainer/step/skipped_steps.h"
#include "trainer/step_tally.h"
#include "tree/forest.h"

namespace ingot::trainer {

class StageRun {
 public:
  // The parts of the trainer that a stage uses. All must outlive the stage. Null `ranks` = one rank.
  struct Context {
    const TrainerOptions& options;
    Ranks* ranks;
    Policy& policy;
    RankOrders& orders;
    const StepExchanges& exchanges;
    BoundMeter& bound;
    const base::Clock& clock;
  };

  // `threads` is the number of compute threads on this rank during the stage; 0 = options.threads.
  StageRun(StageKind kind, int threads, const Context& context);

  const std::string& name() const { return name_; }  // prefix of the stage's metrics and configuration keys
  const SftOptions& options() const { return options_; }
  // Episodes per conversation (1) or pair (2).
  int32_t episodes() const { return kind_ == StageKind::kDpo ? 2 : 1; }
  // Returns whether a rank is lost. If so, the stage cannot continue.
  bool broken() const { return context_.ranks != nullptr && context_.ranks->broken(); }
  SkippedSteps& skipped() { return skipped_; }

  // On rank 0, before Begin: returns the checksum of the policy's weights.
  absl::StatusOr<uint64_t> StartChecksum();

  // Continues the stage from `checkpoint`. Empty = begins with the current weights. Same errors as ReadCheckpoint.
  absl::Status Begin(const std::string& checkpoint);
  // Runs an optimizer step on the calls, with episodes numbered from 0, or skips it (NAME/skipped 1). Same errors as
  // RunSft.
  absl::StatusOr<StepMetrics> Step(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate);
  // Writes ROOT/step-N after N steps. Only rank 0 has extra files.
  absl::StatusOr<CheckpointInfo> Save(const std::string& root, int64_t step,
                                      const std::map<std::string, std::string>& extra_files);
  // Call this even if Begin or a step has failed.
  absl::Status End();

 private:
  void UseThreads() const;
  absl::Status Restore(const std::string& checkpoint);
  absl::StatusOr<PreparedBatch> Prepare(const std::vector<tree::CallPath>& calls) const;
  // Updates the weights. Returns the gradient's fault; empty = updated.
  absl::StatusOr<std::string> Update(const PreparedBatch& batch, const tree::PackedForest& forest, int64_t step,
                                     double learning_rate, StepTally& tally, double& grad_norm);

  const Context context_;
  const StageKind kind_;
  const int threads_;  // 0 = options.threads
  const std::string name_;
  const SftOptions& options_;
  const std::unique_ptr<Objective> objective_;
  const bool in_parts_;   // whether the policy publishes in parts outside the stage
  SkippedSteps skipped_;  // counts the stage's steps
};

}  // namespace ingot::trainer
