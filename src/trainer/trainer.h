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
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "model/transformer.h"
#include "trainer/adamw.h"
#include "trainer/batch.h"
#include "trainer/batch_source.h"
#include "trainer/checkpoint.h"
#include "trainer/forest_pass.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/probe.h"
#include "trainer/sft.h"
#include "trainer/step_bound.h"
#include "weights/snapshot.h"

namespace ingot::trainer {

class Trainer {
 public:
  // At version 0 with a copy of `parameters`, on their device and in the type that options.dtype says.
  // RESOURCE_EXHAUSTED, with the numbers, where model, optimizer and one micro-batch do not fit into memory (CPU);
  // nothing is allocated then.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainerOptions& options,
                                                         const model::ModelConfig& config,
                                                         const model::Parameters& parameters,
                                                         const base::Clock& clock = base::Clock::Real());

  // At the checkpoint's step: what follows is bit-identical to a run that never stopped (same batches, options, threads
  // and machine). Errors as ReadCheckpoint. FAILED_PRECONDITION: a reference policy is needed, and reference_path does
  // not say where the weights are that the run started from.
  static absl::StatusOr<std::unique_ptr<Trainer>> Resume(const TrainerOptions& options,
                                                         const std::string& checkpoint_path,
                                                         at::Device device = at::kCPU,
                                                         const base::Clock& clock = base::Clock::Real());

  // Optimizer steps taken since the warm start: the version that the parameters are.
  int64_t version() const { return version_; }
  const TrainerOptions& options() const { return options_; }
  const model::ModelConfig& config() const { return model_.config(); }
  const model::Parameters& parameters() const { return model_.parameters(); }

  // Supervised warm start, at version 0 only (FAILED_PRECONDITION); the version stays 0 and the optimizer of the RL
  // stage starts afresh. `calls` from dataset/sft.h: `episode` tells conversations apart. OK at once without calls.
  absl::Status RunSft(const std::vector<tree::FlatCall>& calls, const SftObserver& observer);

  // The same with pairs from dataset/preferences.h and the options of `dpo`; the reference is the policy as the stage
  // finds it.
  absl::Status RunDpo(const std::vector<tree::FlatCall>& calls, const SftObserver& observer);

  // One optimizer step on batch version(), or a skipped one (trainer/skipped 1). INVALID_ARGUMENT and DATA_LOSS: see
  // PrepareBatch, or the batch is another step's; RESOURCE_EXHAUSTED: its
  // forest does not fit into memory, and nothing ran; INTERNAL: torch failed, or too many steps in a row gave no step.
  absl::StatusOr<StepReport> TrainStep(const TrainBatch& batch, const ProbeSource& probe = nullptr);

  // The parameters as they are, for publishing; the same object until they change.
  absl::StatusOr<std::shared_ptr<const weights::Snapshot>> TakeSnapshot();

  // Writes ROOT/step-N with N = version(); see WriteCheckpoint.
  absl::StatusOr<CheckpointInfo> SaveCheckpoint(const std::string& root,
                                                const std::map<std::string, std::string>& extra_files);

  // AdamW's moments by name, shared: for checks.
  std::map<std::string, at::Tensor> optimizer_state() const { return optimizer_.State(); }

 private:
  Trainer(const TrainerOptions& options, model::Transformer model, std::unique_ptr<Objective> objective,
          const base::Clock& clock);

  struct StepTally;
  // What the probe's source will have given; not valid where nothing was asked of it. Its destructor waits.
  using ProbeFuture = std::future<absl::StatusOr<std::vector<tree::FlatCall>>>;
  TokenLimits Limits() const;
  absl::Status RunSupervised(const std::function<absl::Status()>& stage);
  // RESOURCE_EXHAUSTED if the batch's step needs more memory than there is.
  absl::Status CheckStepMemory(const tree::PackedForest& forest, StepMetrics& metrics) const;
  // tree/speedup* and perf/*bound*: what the passes took beside what they could have (step_bound.h).
  void ReportBound(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics);
  void AccumulateBatch(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss, StepTally& tally);
  ProbeFuture StartProbe(const ProbeSource& probe) const;
  void FinishProbe(ProbeFuture fresh, StepTally& tally) const;
  // A description of what is not finite; empty: the weights were moved.
  std::string Optimize(const PreparedBatch& batch, StepLoss& loss, StepTally& tally, StepMetrics& metrics);
  absl::StatusOr<StepReport> Skip(PreparedBatch batch, const std::string& why);
  void Report(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics) const;
  absl::Status SetReference(const model::Parameters* start);

  const TrainerOptions options_;
  const base::Clock& clock_;
  const model::Transformer model_;
  const std::unique_ptr<Objective> objective_;
  const PassOptions pass_options_;
  AdamW optimizer_;
  std::optional<model::Transformer> reference_;  // the policy that needs_reference() speaks of
  int64_t version_ = 0;
  int64_t skipped_in_a_row_ = 0;
  std::optional<StepRates> rates_;                     // measured at the first step
  std::shared_ptr<const weights::Snapshot> snapshot_;  // of the parameters as they are; null: not taken yet
};

}  // namespace ingot::trainer
