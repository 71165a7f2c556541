// The trainer: owns the policy's parameters and their optimizer, turns a batch of groups into one step, one new
// version.
//
//   groups -> PrepareBatch (checks, advantages, weights) -> one merged forest, cut into parts -> gradients, added up
//          -> probe -> clipping, AdamW -> version + 1
//
// All methods from one thread at a time, which they block; computing uses options.threads threads of it, and the
// probe's source is asked on another. A failed TrainStep changes nothing: the same batch, or another, can follow.
//
// A batch that gives no step, because nothing of it bears loss or because loss or gradient are not finite, is SKIPPED:
// logged with what is at fault (tensor and trajectories), the weights and the optimizer stay, and the version moves on,
// since the batch is consumed. After options.max_skipped_steps in a row (counted since this object was made) the next
// one is an error instead. Law 2: the result is that of running each call by itself, whatever merging and the cut into
// micro-batches do, up to rounding.
//
// With ranks (parallel/ranks.h) the processes of a group each have a Trainer of the same options and weights, and train
// every batch together: each the calls that are its own, then one step of one optimizer divided over them. Rank 0's is
// used as if it were alone; the others Follow it until its Dismiss. The result is one rank's up to rounding, and
// bit-identical for the same number of ranks. Errors of a step are those of any rank, on all of them; RankLost
// (liveness.h) where one is gone, after which this object can do no more. So it is in the supervised stages before the
// first step: what is read, observed and decided there is rank 0's, the others are told stage and step.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "model/transformer.h"
#include "trainer/batch.h"
#include "trainer/batch_source.h"
#include "trainer/checkpoint.h"
#include "trainer/forest_pass.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/parallel/layer_shards.h"
#include "trainer/parallel/ranks.h"
#include "trainer/parallel/sharded_adamw.h"
#include "trainer/probe.h"
#include "trainer/sft.h"
#include "trainer/stage_checkpoints.h"
#include "trainer/step_bound.h"
#include "trainer/step_tally.h"
#include "weights/snapshot.h"

namespace ingot::trainer {

class Trainer {
 public:
  // RESOURCE_EXHAUSTED, with the numbers, where a model of this shape, in the type that options or its torch_dtype
  // name, its optimizer and one micro-batch do not fit into memory (CPU). To be asked before there are weights, which
  // may be what does not fit. With `ranks` by all together.
  static absl::Status CheckFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                                Ranks* ranks = nullptr);

  // At version 0 with a copy of `parameters`, on their device and in the type that options.dtype says; with those
  // themselves, where the type is theirs, if they are given up.
  // RESOURCE_EXHAUSTED as CheckFits; nothing is allocated then. INVALID_ARGUMENT: weights that are not finite. With
  // `ranks` (which outlive this; null: one rank) all create theirs together, and rank 0's parameters are everyone's.
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

  // At the checkpoint's step: what follows is bit-identical to a run that never stopped (same batches, options,
  // threads, number of ranks and machine); a checkpoint may be resumed on any number of ranks. Errors as
  // ReadCheckpoint. FAILED_PRECONDITION: a reference policy is needed, and reference_path does not say where the
  // weights are that the run started from.
  static absl::StatusOr<std::unique_ptr<Trainer>> Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path,
                                                         at::Device device = at::kCPU,
                                                         const base::Clock& clock = base::Clock::Real(),
                                                         Ranks* ranks = nullptr);

  // Optimizer steps taken since the warm start: the version that the parameters are.
  int64_t version() const { return version_; }
  const TrainerOptions& options() const { return options_; }
  // The objective with its effective bounds, and what it is fed: a line for the log.
  std::string Describe() const;
  const model::ModelConfig& config() const { return model_.config(); }
  // Where ranks divide them by layer, from the first step on only those that this rank owns (IsHere).
  const model::Parameters& parameters() const { return model_.parameters(); }

  // Supervised warm start, at version 0 only (FAILED_PRECONDITION); the version stays 0, the optimizer of the RL stage
  // starts afresh, and the reference policy is the one that the stage came to. `calls` from dataset/sft.h: `episode`
  // tells conversations apart. OK at once without calls. `checkpoints`: a folder of this stage's own, from whose newest
  // checkpoint it goes on, and where it writes one every checkpoint_every steps and after its last; empty: none.
  // `threads`: what every rank computes with meanwhile; 0: options.threads.
  //
  // A step whose loss or gradient is not finite is skipped as TrainStep's are, with the conversations at fault in the
  // log. A stage whose last steps were skipped so goes through the batch of the last one that was made once more: what
  // gives no finite gradient of that either is not the data's fault.
  //
  // INVALID_ARGUMENT as PrepareSft, before anything is trained; RESOURCE_EXHAUSTED as TrainStep; INTERNAL: too many
  // steps in a row would be skipped, or the weights give no finite gradient in the end; the observer's error. After
  // each of these the trainer holds the weights of the stage's last step. Errors also StageCheckpoints::Newest's and
  // ReadCheckpoint's.
  absl::Status RunSft(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                      const std::string& checkpoints = "", int threads = 0);

  // INVALID_ARGUMENT, naming the call, if one cannot be trained on: longer than the context, ids that the model does
  // not know. A stage begins with it; to be asked for every stage of a run before the first begins.
  absl::Status CheckExamples(const std::vector<tree::CallPath>& calls) const;

  // The same with pairs from dataset/preferences.h and the options of `dpo`: the calls of episode 2i were preferred to
  // those of episode 2i + 1. The reference is the policy as the stage finds it.
  absl::Status RunDpo(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                      const std::string& checkpoints = "", int threads = 0);

  // One optimizer step on batch version(), or a skipped one (trainer/skipped 1). INVALID_ARGUMENT and DATA_LOSS: see
  // PrepareBatch, or the batch is another step's; RESOURCE_EXHAUSTED: its
  // forest does not fit into memory, and nothing ran; INTERNAL: torch failed, or too many steps in a row gave no step.
  absl::StatusOr<StepReport> TrainStep(const TrainBatch& batch, const ProbeSource& probe = nullptr);

  // The parameters as they are, for publishing; the same object until they change.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeSnapshot();

  // Writes ROOT/step-N with N = version(); see WriteCheckpoint.
  absl::StatusOr<CheckpointInfo> SaveCheckpoint(const std::string& root,
                                                const std::map<std::string, std::string>& extra_files);

  // Of every rank but 0: takes part in what rank 0's trainer does until its Dismiss. A step or a checkpoint that fails
  // everywhere is rank 0's to answer. RankLost; INTERNAL if the ranks did not go on together.
  absl::Status Follow();

  // Of rank 0, when its run ends, well or not: the others' Follow returns. Nothing with one rank, or after RankLost.
  absl::Status Dismiss();

  // AdamW's moments by name, of what this rank owns, shared: for checks.
  std::map<std::string, at::Tensor> optimizer_state() const { return optimizer_->State(); }

 private:
  Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
          const base::Clock& clock, Ranks* ranks);
  static absl::StatusOr<std::unique_ptr<Trainer>> Make(const TrainerOptions& options, const model::ModelConfig& config,
                                                       model::Parameters parameters, bool copy,
                                                       const base::Clock& clock, Ranks* ranks);

  // What the probe's source will have given; not valid where nothing was asked of it. Its destructor waits.
  using ProbeFuture = std::future<absl::StatusOr<std::vector<tree::CallPath>>>;
  void UseThreads() const;
  // What was waited for others' parameters so far.
  double GatherSeconds() const { return shards_ == nullptr ? 0 : shards_->seconds(); }
  TokenLimits Limits() const;
  // RESOURCE_EXHAUSTED if the batch's step needs more memory than there is.
  absl::Status CheckStepMemory(const tree::PackedForest& forest, StepMetrics& metrics) const;
  // tree/speedup* and perf/*bound*: what the passes took beside what they could have (step_bound.h). Of rank 0, after
  // a step: its gradients are gone. A failure is logged, and leaves them out.
  void ReportBound(const StepTally& tally, StepMetrics& metrics);
  struct KnownRates {
    StepRates best;
    int threads = 0, times = 0;  // that computed; that they were measured with so many
  };
  void MeasureRates();
  // After a step that was made from weights of that number, or was not.
  void NoteSound(int64_t number) {
    skipped_in_a_row_ = not_finite_in_a_row_ = 0;
    last_sound_ = number;
  }
  void AccumulateBatch(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss, StepTally& tally);
  void AccumulateGradient(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                          StepTally& tally);
  ProbeFuture StartProbe(const ProbeSource& probe) const;
  void FinishProbe(ProbeFuture fresh, StepTally& tally) const;
  // A description of what is not finite; empty: the weights were moved.
  std::string Optimize(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                       const StepTally& tally, StepMetrics& metrics);
  // What of loss and gradient is not finite, and whose it is; empty: all is.
  std::string FindFault(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                        const StepTally& tally, double grad_norm);
  // Before the update that this version is due, or in its place where it is skipped.
  bool ResetsOptimizer() const {
    return options_.optimizer_reset_every > 0 && version_ % options_.optimizer_reset_every == 0;
  }
  // Of a step (its name) that cannot be made: INTERNAL if too many in a row were skipped, otherwise it counts as one.
  absl::Status CountSkipped(const std::string& step, const std::string& why);
  absl::StatusOr<StepReport> Skip(PreparedBatch batch, const std::string& why);
  void Report(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics) const;
  void ReportRanks(const StepTally& tally, StepMetrics& metrics) const;
  void MakeOptimizer(const OptimizerOptions& options);
  absl::Status SetReference(const model::Parameters* start);
  absl::Status CopyReference(const model::Parameters& from);
  absl::Status LoadOptimizer(const std::string& checkpoint_path, const CheckpointContents& contents);
  // What checkpoint `step` holds beside weights and the optimizer's state.
  absl::StatusOr<CheckpointContents> Contents(int64_t step);
  // Of the trainer or, with its steps, of the stage that runs.
  absl::StatusOr<CheckpointInfo> Save(const std::string& root, int64_t step,
                                      const std::map<std::string, std::string>& extra_files);

  // Supervised stages (trainer_stages.cc). Rank 0 runs one; together are made its beginning, its steps and its end.
  enum class StageKind : int32_t { kSft, kDpo };
  struct Stage {
    std::string name;  // prefix of its metrics and of its configuration keys
    const SftOptions& options;
    std::unique_ptr<Objective> objective;
    int32_t episodes;  // of a conversation or pair
    int threads;
  };
  absl::Status RunStage(StageKind kind, const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                        const std::string& checkpoints, int threads);
  // `units`: the calls of each conversation or pair; `taken`: steps that are behind it.
  absl::Status RunStageSteps(const std::vector<tree::CallPath>& calls, const std::vector<std::vector<size_t>>& units,
                             const SftObserver& observer, const StageCheckpoints& kept, int64_t taken);
  // What a stage comes to whose last steps were skipped; `run` runs one of its steps.
  absl::Status CheckSound(const std::function<absl::StatusOr<StepMetrics>(int64_t step, double learning_rate)>& run);
  Stage StageOf(StageKind kind, int threads) const;
  // `checkpoint`: what it goes on from; empty: from the weights as they are.
  absl::Status BeginStage(StageKind kind, const std::string& checkpoint, int threads);
  absl::Status RestoreStage(const std::string& checkpoint);
  absl::StatusOr<StepMetrics> StageStep(const std::vector<tree::CallPath>& calls, int64_t step, double learning_rate);
  absl::Status EndStage();

  // Among ranks (trainer_ranks.cc); with one rank each does nothing, or what one rank does.
  enum class Order : int32_t { kStep, kSave, kBeginStage, kStageStep, kEndStage, kDismiss };
  absl::Status Tell(Order order, const std::string& what);  // of rank 0; nothing elsewhere
  // Takes part in what was told.
  absl::Status Obey(Order order, std::string_view what);
  // An error of this rank in what all do together: the others learn of it where they exchange next.
  absl::Status Shared(const absl::Status& own);
  absl::StatusOr<tree::PackedForest> PackShare(const PreparedBatch& batch) const;
  // How often every rank ends a slot.
  int64_t AgreeOnSlots(const tree::PackedForest& forest);
  void ShareScores(const tree::PackedForest& forest, StepLoss& loss);
  // Whether this rank holds its own parameters alone; makes it so before its first step.
  bool divided() const { return shards_ != nullptr && shards_->divided(); }
  void Divide();
  // The reverse, after a stage.
  void Unite();
  // Where no rank has all parameters: rank 0's snapshot of those that a step made.
  void SnapshotTogether(int64_t version);
  void MergeTallies(const PreparedBatch& batch, StepTally& tally);
  void ShareFaults(std::string& tensors, std::vector<int32_t>& calls);
  absl::StatusOr<CheckpointInfo> SaveTogether(const std::string& root, int64_t step,
                                              const std::map<std::string, std::string>& extra_files);

  const TrainerOptions options_;
  const base::Clock& clock_;
  const model::Transformer model_;
  const std::unique_ptr<Objective> objective_;
  Ranks* const ranks_;                         // null: one rank
  const std::unique_ptr<LayerShards> shards_;  // null: all parameters are here
  const PassOptions pass_options_;
  std::optional<ShardedAdamW> optimizer_;        // never empty but while another one is made
  std::optional<model::Transformer> reference_;  // the policy that needs_reference() speaks of, or a stage's
  std::optional<Stage> stage_;                   // that runs; empty: none
  int64_t version_ = 0;
  int64_t skipped_in_a_row_ = 0;
  int64_t not_finite_in_a_row_ = 0;  // of those, or behind them, the ones that gave no finite gradient
  // The last version (of a stage: steps taken) from which a step was made, or the one begun with.
  int64_t last_sound_ = 0;
  std::optional<KnownRates> rates_;
  // Of the parameters as they are; null: not taken yet (or, divided, another rank's).
  std::shared_ptr<const weights::Snapshot> snapshot_;
};

}  // namespace ingot::trainer
