// The trainer turns a batch of groups into one step and one new version of its policy. It owns the sequence of a step;
// its parts own the state (docs/internals/ranks.md lists them, and which ranks call them).
//
//   groups -> PrepareBatch (checks, advantages, weights) -> one merged forest, cut into parts -> gradients, added up
//          -> probe -> clipping, AdamW -> version + 1
//
// All methods are called from one thread at a time and block it. They compute on options.threads threads; the probe's
// source runs on another thread. A failed TrainStep changes nothing: the same batch, or another, can follow.
//
// Law 2: however calls are merged and cut into micro-batches, the result equals running each call separately, up to
// rounding.
//
// A batch is SKIPPED if none of its tokens bears loss, or if loss or gradient are not finite. The faults (tensor and
// trajectories) are logged; weights and optimizer stay; the version moves on, because the batch is consumed. After
// options.max_skipped_steps in a row (counted since this object was made) the next one is an error instead.
//
// Several ranks (parallel/ranks.h) are processes with a Trainer each, of the same options and weights. They train every
// batch together: each runs its share of the calls, then one optimizer, divided over them, makes one step. Rank 0's
// trainer is used as if it were the only one; the others Follow it until its Dismiss. The result equals one rank's up
// to rounding, and is bit-identical for the same number of ranks. An error of any rank in a step is the error of all.
// RankLost (liveness.h) means that a rank is gone; this object is unusable then. Supervised stages run the same way:
// rank 0 reads, observes and decides, and sends stage and step to the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "model/transformer.h"
#include "trainer/batch.h"
#include "trainer/batch_source.h"
#include "trainer/checkpoints/checkpoint.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/parallel/rank_orders.h"
#include "trainer/parallel/ranks.h"
#include "trainer/parallel/step_exchanges.h"
#include "trainer/policy/policy.h"
#include "trainer/policy/version_parts.h"
#include "trainer/probe.h"
#include "trainer/sft.h"
#include "trainer/stages/stage_run.h"
#include "trainer/step/bound_meter.h"
#include "trainer/step/skipped_steps.h"
#include "trainer/step_tally.h"
#include "weights/snapshot.h"
#include "weights/stores/version_layout.h"

namespace ingot::trainer {

class BatchGradient;
class BoundedUpdate;

class Trainer {
 public:
  // Makes a trainer at version 0 with a copy of `parameters`, on their device and in the type of options.dtype. The
  // second form takes the parameters over, and copies none whose type stays. RESOURCE_EXHAUSTED as CheckFits
  // (run_memory.h), before anything is allocated; INVALID_ARGUMENT: weights that are not finite. `ranks` outlive this;
  // null = one rank. With `ranks` all create theirs together, and all get rank 0's parameters.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainerOptions& options,
                                                         const model::ModelConfig& config,
                                                         const model::Parameters& parameters,
                                                         const base::Clock& clock = base::Clock::Real(),
                                                         Ranks* ranks = nullptr);
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainerOptions& options,
                                                         const model::ModelConfig& config,
                                                         model::Parameters&& parameters,
                                                         const base::Clock& clock = base::Clock::Real(),
                                                         Ranks* ranks = nullptr);

  // Makes a trainer at the checkpoint's step. It continues bit-identical to a run that never stopped (same batches,
  // options, threads, number of ranks and machine); a checkpoint may be resumed on any number of ranks. Errors as
  // ReadCheckpoint. FAILED_PRECONDITION: a reference policy is needed, and reference_path does not name the run's start
  // weights; or reference_update_every has moved it since, and the checkpoint does not hold it.
  static absl::StatusOr<std::unique_ptr<Trainer>> Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path,
                                                         at::Device device = at::kCPU,
                                                         const base::Clock& clock = base::Clock::Real(),
                                                         Ranks* ranks = nullptr);

  // Optimizer steps since the supervised stages, skipped ones included: the version of the parameters.
  int64_t version() const { return policy_.version(); }
  const TrainerOptions& options() const { return options_; }
  // One line for the log: the objective with its effective bounds, and the rules of its advantages.
  std::string Describe() const;
  const model::ModelConfig& config() const { return policy_.config(); }
  // Once ranks have divided them by layer, only the tensors that this rank owns have memory (IsHere).
  const model::Parameters& parameters() const { return policy_.parameters(); }

  // Runs the supervised warm start; at version 0 only (FAILED_PRECONDITION). The version stays 0. The RL stage starts
  // with a fresh optimizer, and its reference policy is the stage's result. `calls` from dataset/sft.h: equal `episode`
  // = same conversation. No calls: OK at once. `checkpoints`: a folder for only this stage, empty = none. The stage
  // continues from its newest checkpoint, and writes one every checkpoint_every steps and after its last step.
  // `threads` of every rank meanwhile; 0 = options.threads.
  //
  // A step whose loss or gradient is not finite is skipped as in TrainStep, and the log names the conversations at
  // fault. If the stage's last steps were skipped, the batch of the last step that was made runs once more. If its
  // gradient is not finite either, the weights are at fault and not the data.
  //
  // INVALID_ARGUMENT as PrepareSft, before anything is trained; RESOURCE_EXHAUSTED as TrainStep; INTERNAL: too many
  // steps in a row would be skipped, or the last weights give no finite gradient; the observer's error; errors of
  // StageCheckpoints::Newest and ReadCheckpoint. After each error the trainer holds the weights of the stage's last
  // step.
  absl::Status RunSft(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                      const std::string& checkpoints = "", int threads = 0);

  // INVALID_ARGUMENT names a call that cannot be trained on: longer than the context, or with an id outside the
  // vocabulary. Every stage begins with this check; call it for all stages of a run before the first begins.
  absl::Status CheckExamples(const std::vector<tree::CallPath>& calls) const;

  // As RunSft, for DPO, with the options of `dpo` and pairs from dataset/preferences.h: the calls of episode 2i were
  // preferred to the calls of episode 2i + 1. The reference is the policy at the start of the stage.
  absl::Status RunDpo(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                      const std::string& checkpoints = "", int threads = 0);

  // Makes one optimizer step on batch version(), or skips it (trainer/skipped 1). INVALID_ARGUMENT: the batch is
  // another step's; INVALID_ARGUMENT and DATA_LOSS as PrepareBatch; RESOURCE_EXHAUSTED: the forest does not fit into
  // memory, and nothing ran; INTERNAL: torch failed, or too many steps in a row would be skipped.
  absl::StatusOr<StepReport> TrainStep(const TrainBatch& batch, const ProbeSource& probe = nullptr);

  // The current parameters, for publishing; the same object until they change.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeSnapshot() { return policy_.TakeSnapshot(); }

  // With several ranks: each stores the parameters that it owns as a shard of every version, so that none needs all of
  // them. Called by every rank, after its Create or Resume, with its own store at the same place.
  void StoreVersionsIn(weights::VersionStore store);

  // On rank 0, after StoreVersionsIn, in place of TakeSnapshot. Returns the current version with the manifest of its
  // shards, which all ranks have stored when it returns; the manifest is not stored yet. The shards are a delta from
  // `base` if the ranks still have it, else a full copy. `anchor`: always store a full copy. Can be called again after
  // an error of a store.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> StoreVersion(const weights::HeldVersion& base, bool anchor);

  // Writes ROOT/step-N with N = version(); see WriteCheckpoint.
  absl::StatusOr<CheckpointInfo> SaveCheckpoint(const std::string& root,
                                                const std::map<std::string, std::string>& extra_files);

  // On every rank but 0: takes part in the work of rank 0's trainer until its Dismiss. A step or checkpoint that fails
  // on all ranks is logged here and returned by rank 0. RankLost; INTERNAL: the ranks did not continue together.
  absl::Status Follow();

  // On rank 0, when its run ends, well or not: lets the others' Follow return. Does nothing with one rank or after
  // RankLost.
  absl::Status Dismiss();

  // For tests: AdamW's moments of the parameters that this rank owns, by name, shared.
  std::map<std::string, at::Tensor> optimizer_state() const { return policy_.optimizer().State(); }

 private:
  Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
          const base::Clock& clock, Ranks* ranks);
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const TrainerOptions& options, const model::ModelConfig& config,
                                                       model::Parameters parameters, bool copy,
                                                       const base::Clock& clock, Ranks* ranks);
  void UseThreads() const;

  // Of TrainStep, together (train_step.cc):
  struct Outcome {
    StepTally tally;
    std::string fault;                       // why the weights stay; empty = updated
    std::chrono::nanoseconds stepped_at{0};  // StepReport::stepped_at
  };
  // Gradient, probe and update on a batch with loss tokens. `forest`: this rank's share. Leaves no gradient.
  absl::StatusOr<Outcome> RunStep(PreparedBatch& batch, const tree::PackedForest& forest, const ProbeSource& probe);
  // Updates the weights, unless the gradient is at fault.
  void Update(BatchGradient& gradient, BoundedUpdate& update, StepMetrics& metrics, Outcome& outcome);
  // Makes the next version of the same weights.
  absl::StatusOr<StepReport> Skip(PreparedBatch batch, const std::string& why);
  // Makes the new version the reference policy, if it is due.
  absl::Status MoveReference();
  // Whether this step measures the variance of its update.
  bool MeasuresVariance() const;
  // Whether the optimizer's state must be reset at this version, whether its step is made or skipped.
  bool ResetsOptimizer() const;

  // Together. Saves the trainer or, during a stage, the stage; `step` counts the stage's steps then.
  absl::StatusOr<CheckpointInfo> Save(const std::string& root, int64_t step,
                                      const std::map<std::string, std::string>& extra_files);

  // Of rank 0.
  absl::Status RunStage(StageKind kind, const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                        const std::string& checkpoints, int threads);
  // Of each rank, before the stage's Begin and after its End.
  StageRun& MakeStage(StageKind kind, int threads);
  void ForgetStage();

  const TrainerOptions options_;
  const base::Clock& clock_;
  const std::unique_ptr<Objective> objective_;
  Ranks* const ranks_;  // null = one rank
  Policy policy_;
  const StepExchanges exchanges_;
  RankOrders orders_;
  VersionParts parts_;  // stores none = rank 0 has versions whole
  BoundMeter bound_;
  SkippedSteps skipped_;           // of the RL stage
  std::optional<StageRun> stage_;  // the running supervised stage; empty = none
  int64_t next_group_ = 0;         // CheckpointContents::next_group
};

}  // namespace ingot::trainer
