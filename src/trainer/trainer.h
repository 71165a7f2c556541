// Turns a batch of groups into one optimizer step and one new version of the policy. The trainer controls the sequence
// of a step. Its parts own the state (docs/internals/ranks.md lists them and the ranks that call them).
//
//   groups -> PrepareBatch (checks, advantages, weights) -> one merged forest, split into parts -> sum of gradients
//          -> probe -> clipping, AdamW -> version + 1
//
// All methods must be called from one thread at a time, and they block. They compute on options.threads threads, and
// TrainStep also on borrowed ones (BorrowThreads). The probe's source runs on another thread. A failed TrainStep
// changes nothing, so the same batch or another one can follow.
//
// Law 2: no matter how calls are merged and split into micro-batches, the result is as if each call ran alone, up to
// rounding.
//
// A batch is SKIPPED if none of its tokens bear loss, or if the loss or gradient is not finite. The tensor and
// trajectories at fault are logged, and the weights and optimizer do not change. The version still advances, because
// the batch is consumed. After options.max_skipped_steps consecutive skips since this object was created, the next skip
// is an error.
//
// Several ranks (parallel/ranks.h) are processes that each have a Trainer with the same options and weights. They train
// every batch together: each runs its share of the calls, and then one optimizer, divided among them, performs one
// step. Callers use rank 0's trainer as if it were the only one. The others call Follow, which returns when rank 0
// calls Dismiss. Results equal one rank's up to rounding and are bit-identical on equal numbers of ranks. If a step
// fails on any rank, all ranks return the error. RankLost (liveness.h) means that a rank is gone, and this object is
// then unusable. Supervised stages run the same way: rank 0 reads, observes, and decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/compute_share.h"
#include "model/mtp_head.h"
#include "model/transformer.h"
#include "trainer/batch.h"
#include "trainer/batch_source.h"
#include "trainer/checkpoints/checkpoint.h"
#include "trainer/draft/draft_trainer.h"
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
  // Creates a trainer at version 0 with a copy of `parameters`, on their device and with type options.dtype. The second
  // overload takes ownership of the parameters and does not copy those that already have the right type. Returns
  // RESOURCE_EXHAUSTED as CheckFits does (run_memory.h), before anything is allocated, and INVALID_ARGUMENT if weights
  // are not finite. `ranks` must outlive the trainer; null = one rank. With `ranks`, all ranks create their trainers
  // together and get rank 0's parameters.
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

  // Creates a trainer at the checkpoint's step. It continues bit-identical to an uninterrupted run with the same
  // batches, options, threads, number of ranks, and machine. A checkpoint may be resumed on any number of ranks. Same
  // errors as ReadCheckpoint. Returns FAILED_PRECONDITION if a reference policy is needed and reference_path does not
  // name the run's start weights, or if reference_update_every has moved it and the checkpoint does not contain it.
  static absl::StatusOr<std::unique_ptr<Trainer>> Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path,
                                                         at::Device device = at::kCPU,
                                                         const base::Clock& clock = base::Clock::Real(),
                                                         Ranks* ranks = nullptr);

  // From now on, `compute` lends this trainer's threads except during TrainStep, which borrows others. This does not
  // change any result. Null = neither.
  void BorrowThreads(std::shared_ptr<kernels::ComputeMember> compute) { compute_ = std::move(compute); }

  // Returns the memory that no tensor uses, on the CPU and on this rank's device, to the system.
  void ReleaseUnusedMemory() const;

  // Returns the version of the parameters: the number of optimizer steps since the supervised stages, including skipped
  // ones.
  int64_t version() const { return policy_.version(); }
  const TrainerOptions& options() const { return options_; }
  // Returns one line for the log: the objective with its effective bounds, and its advantage rules.
  std::string Describe() const;
  const model::ModelConfig& config() const { return policy_.config(); }
  // If ranks have divided the parameters by layer, only the tensors that this rank owns have memory (IsHere).
  const model::Parameters& parameters() const { return policy_.parameters(); }

  // Runs the supervised warm start. Returns FAILED_PRECONDITION unless the version is 0. The version stays 0. The RL
  // stage then starts with a fresh optimizer and the stage's result as its reference policy. `calls` come from
  // dataset/sft.h: calls from one conversation have the same `episode`. Returns OK immediately if there are none.
  // `checkpoints` is a directory for this stage only; empty = none. The stage continues from the newest checkpoint
  // there. It writes one every checkpoint_every steps and after its last step. `threads` is the number of compute
  // threads on every rank during the stage; 0 = options.threads.
  //
  // A step with a non-finite loss or gradient is skipped as in TrainStep, and the log names the conversations at fault.
  // If the stage's last steps were skipped, the batch of the last successful step runs once more. If its gradient is
  // not finite either, the weights are at fault, not the data.
  //
  // Returns PrepareSft's INVALID_ARGUMENT errors, before training anything; TrainStep's RESOURCE_EXHAUSTED errors;
  // INTERNAL if too many consecutive steps would be skipped or if the gradient of the last weights is not finite; the
  // observer's error; and the errors of StageCheckpoints::Newest and ReadCheckpoint. After an error, the trainer has
  // the weights of the stage's last step.
  absl::Status RunSft(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                      const std::string& checkpoints = "", int threads = 0);

  // Returns INVALID_ARGUMENT, naming the call, if a call is longer than the context or has an id outside the
  // vocabulary. Every stage begins with this check. Call it for all stages in a run before the first stage
  // begins.
  absl::Status CheckExamples(const std::vector<tree::CallPath>& calls) const;

  // Same as RunSft, but for DPO, with the `dpo` options and pairs from dataset/preferences.h: the calls of episode 2i
  // are preferred to those of episode 2i + 1. The reference is the policy at the start of the stage.
  absl::Status RunDpo(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                      const std::string& checkpoints = "", int threads = 0);

  // Trains the draft head for draft.warmup_steps steps on conversations (draft/draft_warmup.h). Called after the
  // supervised stages. Returns OK immediately if no head is trained.
  absl::Status WarmUpDraft(const std::vector<tree::CallPath>& calls, const SftObserver& observer);

  // Runs one optimizer step on batch version(), or skips it (trainer/skipped 1). Returns INVALID_ARGUMENT if the batch
  // is for another step; PrepareBatch's INVALID_ARGUMENT and DATA_LOSS errors; RESOURCE_EXHAUSTED, before running
  // anything, if the forest does not fit in memory; and INTERNAL if torch failed or too many consecutive steps would be
  // skipped.
  absl::StatusOr<StepReport> TrainStep(const TrainBatch& batch, const ProbeSource& probe = nullptr);

  // Returns the current parameters, for publishing. Returns the same object until they change.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeSnapshot() { return policy_.TakeSnapshot(); }

  // With several ranks, makes each rank store the parameters that it owns as a shard of every version, so that no rank
  // needs all of them. Every rank calls this after its Create or Resume, with its own store for the same location.
  void StoreVersionsIn(weights::VersionStore store);

  // On rank 0, replaces TakeSnapshot after StoreVersionsIn. Returns the current version with the manifest of its
  // shards. When it returns, all ranks have stored their shards, but the manifest is not stored yet. The shards are a
  // delta from `base` if the ranks still have it, and a full copy otherwise. `anchor` = always store a full copy. May
  // be called again after a store error.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> StoreVersion(const weights::HeldVersion& base, bool anchor);

  // Writes ROOT/step-N, with N = version(). See WriteCheckpoint.
  absl::StatusOr<CheckpointInfo> SaveCheckpoint(const std::string& root,
                                                const std::map<std::string, std::string>& extra_files);

  // Call on every rank except 0. Does this rank's share of the work until rank 0's trainer calls Dismiss. A step or
  // checkpoint that fails on all ranks is logged here and returned on rank 0. Returns RankLost if a rank is lost, and
  // INTERNAL if the ranks did not continue together.
  absl::Status Follow();

  // Call on rank 0 when its run ends, with or without an error. Makes Follow return on the other ranks. Does nothing
  // with one rank or after RankLost.
  absl::Status Dismiss();

  // For tests: returns AdamW's moments for the parameters that this rank owns, by name. Shares the tensors.
  std::map<std::string, at::Tensor> optimizer_state() const { return policy_.optimizer().State(); }

 private:
  Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
          const base::Clock& clock, Ranks* ranks);
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const TrainerOptions& options, const model::ModelConfig& config,
                                                       model::Parameters parameters, bool copy,
                                                       const base::Clock& clock, Ranks* ranks);
  void UseThreads() const;

  // For TrainStep, which all ranks run together (train_step.cc):
  struct Outcome {
    StepTally tally;
    std::string fault;                       // why the weights did not change; empty = they did
    std::chrono::nanoseconds stepped_at{0};  // StepReport::stepped_at
  };
  // Computes the gradient, runs the probe, and updates, for a batch with loss tokens. `forest` is this rank's share.
  absl::StatusOr<Outcome> RunStep(PreparedBatch& batch, const tree::PackedForest& forest, const ProbeSource& probe);
  // Updates the weights, unless the gradient is faulty.
  void Update(BatchGradient& gradient, BoundedUpdate& update, StepMetrics& metrics, Outcome& outcome);
  // Creates the next version with the same weights.
  absl::StatusOr<StepReport> Skip(PreparedBatch batch, const std::string& why);
  // Makes the new version the reference policy if that is due.
  absl::Status MoveReference();
  // Adds the newest draft head to new versions if that is due.
  void PublishDraft();
  bool MeasuresVariance() const;
  // Returns whether this version resets the optimizer's state, even if its step is skipped.
  bool ResetsOptimizer() const;

  // Collective. Saves the trainer or, during a stage, the stage. During a stage, `step` counts its steps.
  absl::StatusOr<CheckpointInfo> Save(const std::string& root, int64_t step,
                                      const std::map<std::string, std::string>& extra_files);

  // Creates the draft head if the options have one, from `tensors` (empty = a new head) and its training state.
  absl::Status StartDraft(const model::DraftTensors& tensors, const std::map<std::string, at::Tensor>& state);
  // Takes over the prediction layers of a model folder; empty = none. They are not trained: checkpoints contain them, and
  // versions, unless the run trains a draft head.
  absl::Status StartMtp(const std::string& dir);
  absl::Status ResumeDraft(const std::string& checkpoint);

  // Called on rank 0.
  absl::Status RunStage(StageKind kind, const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                        const std::string& checkpoints, int threads);
  // Called on each rank: MakeStage before the stage's Begin, and ForgetStage after its End.
  StageRun& MakeStage(StageKind kind, int threads);
  void ForgetStage();

  const TrainerOptions options_;
  const base::Clock& clock_;
  const std::unique_ptr<Objective> objective_;
  Ranks* const ranks_;                               // null = one rank
  std::shared_ptr<kernels::ComputeMember> compute_;  // null = threads are not lent
  Policy policy_;
  const StepExchanges exchanges_;
  RankOrders orders_;
  VersionParts parts_;  // without a store, rank 0 has whole versions
  BoundMeter bound_;
  SkippedSteps skipped_;                 // for the RL stage
  std::optional<StageRun> stage_;        // the running supervised stage; empty = none
  std::unique_ptr<DraftTrainer> draft_;  // null = no draft head is trained
  model::MtpTensors mtp_;                // prediction layers of the start folder; empty = none, or not rank 0
  int64_t next_group_ = 0;               // CheckpointContents::next_group
};

}  // namespace ingot::trainer
