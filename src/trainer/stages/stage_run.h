// One supervised stage of a trainer (sft.h), SFT or DPO, from its beginning to its end. Its steps are those of the RL
// stage with another objective and a fresh optimizer. Every rank has one. Begin, Step, Save and End are called
// together: rank 0's call sends the order by which the others call theirs (rank_orders.h).
//
//   rank 0   Begin ─▶ Step ─▶ Step ─▶ Save ─▶ ... ─▶ End      StageLoop reads, observes, decides (stage_loop.h)
//              │       │       │       │               │
//   rank 1   Begin ─▶ Step ─▶ Step ─▶ Save ─▶ ... ─▶ End      gets each step's calls
//
// Meanwhile rank 0 has versions whole: no version of a stage is published. End leaves an ordinary trainer: all
// parameters on every rank, the RL stage's fresh optimizer, and the stage's result as the start of the reference
// policy.
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
  // What a stage uses of the trainer. All outlive it; `ranks` null = one rank.
  struct Context {
    const TrainerOptions& options;
    Ranks* ranks;
    Policy& policy;
    RankOrders& orders;
    const StepExchanges& exchanges;
    BoundMeter& bound;
    const base::Clock& clock;
  };

  // `threads`: compute threads of this rank meanwhile; 0 = options.threads.
  StageRun(StageKind kind, int threads, const Context& context);

  const std::string& name() const { return name_; }  // prefix of its metrics and of its configuration keys
  const SftOptions& options() const { return options_; }
  // Episodes per conversation (1) or pair (2).
  int32_t episodes() const { return kind_ == StageKind::kDpo ? 2 : 1; }
  // A rank is gone: nothing can follow.
  bool broken() const { return context_.ranks != nullptr && context_.ranks->broken(); }
  SkippedSteps& skipped() { return skipped_; }

  // Rank 0, before Begin: the checksum of the policy's weights.
  absl::StatusOr<uint64_t> StartChecksum();

  // `checkpoint`: the stage continues from it; empty = begins with the current weights. Errors of ReadCheckpoint.
  absl::Status Begin(const std::string& checkpoint);
  // One optimizer step on the calls, whose episodes count from 0; or skips it (NAME/skipped 1). Errors as RunSft.
  absl::StatusOr<StepMetrics> Step(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate);
  // Writes ROOT/step-N after N steps. Only rank 0 has the extra files.
  absl::StatusOr<CheckpointInfo> Save(const std::string& root, int64_t step,
                                      const std::map<std::string, std::string>& extra_files);
  // Called even if Begin or a step failed.
  absl::Status End();

 private:
  void UseThreads() const;
  absl::Status Restore(const std::string& checkpoint);
  absl::StatusOr<PreparedBatch> Prepare(const std::vector<tree::CallPath>& calls) const;
  // Updates the weights. The fault of its gradient; empty = updated.
  absl::StatusOr<std::string> Update(const PreparedBatch& batch, const tree::PackedForest& forest, int64_t step,
                                     double learning_rate, StepTally& tally, double& grad_norm);

  const Context context_;
  const StageKind kind_;
  const int threads_;  // 0 = options.threads
  const std::string name_;
  const SftOptions& options_;
  const std::unique_ptr<Objective> objective_;
  const bool in_parts_;   // how the policy publishes outside of the stage
  SkippedSteps skipped_;  // counts steps of the stage
};

}  // namespace ingot::trainer
