// The supervised stages of a Trainer (sft.h).
//
//   rank 0   begin ─▶ step, observe ─▶ step, observe, save ─▶ ... ─▶ end      reads, counts, observes, decides to stop
//              │        │                │       │                    │
//   rank 1   begin ─▶ step ──────────▶ step ─▶ save ──────────────▶ end       follows, gets each step's calls
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/process_memory.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/run_memory.h"
#include "trainer/schedule.h"
#include "trainer/step/batch_gradient.h"
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

constexpr char kContext[] = "supervised training";

// Indices of the calls of each conversation or pair.
using Units = std::vector<std::vector<size_t>>;

Units UnitsOf(const std::vector<tree::CallPath>& calls, int32_t episodes) {
  std::map<int32_t, std::vector<size_t>> by_unit;
  for (size_t i = 0; i < calls.size(); ++i) by_unit[calls[i].episode / episodes].push_back(i);
  Units units;
  for (auto& [unit, indices] : by_unit) units.push_back(std::move(indices));
  return units;
}

// The calls of one step, with their episodes numbered from 0.
std::vector<tree::CallPath> Choose(const std::vector<tree::CallPath>& calls, const Units& units, int32_t episodes,
                                   const std::vector<int64_t>& chosen) {
  std::vector<tree::CallPath> picked;
  for (size_t i = 0; i < chosen.size(); ++i) {
    for (const size_t call : units[static_cast<size_t>(chosen[i])]) {
      picked.push_back(calls[call]);
      picked.back().episode = static_cast<int32_t>(i) * episodes + picked.back().episode % episodes;
    }
  }
  return picked;
}

}  // namespace

absl::Status Trainer::CheckExamples(const std::vector<tree::CallPath>& calls) const {
  for (const tree::CallPath& call : calls) INGOT_RETURN_IF_ERROR(CheckCall(call, policy_.Limits(), /*recorded=*/false));
  return absl::OkStatus();
}

absl::Status Trainer::RunSft(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                             const std::string& checkpoints, int threads) {
  return RunStage(StageKind::kSft, calls, observer, checkpoints, threads);
}

absl::Status Trainer::RunDpo(const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                             const std::string& checkpoints, int threads) {
  return RunStage(StageKind::kDpo, calls, observer, checkpoints, threads);
}

Trainer::Stage Trainer::StageOf(StageKind kind, int threads) const {
  if (kind == StageKind::kSft)
    return {"sft", options_.sft, MakeSft(), 1, threads, SkippedSteps(options_.max_skipped_steps, /*sound=*/-1)};
  return {"dpo", options_.dpo, MakeDpo(options_.dpo_beta),
          2,     threads,      SkippedSteps(options_.max_skipped_steps, /*sound=*/-1)};
}

absl::Status Trainer::RunStage(StageKind kind, const std::vector<tree::CallPath>& calls, const SftObserver& observer,
                               const std::string& checkpoints, int threads) {
  if (version() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("supervised training comes before the first step; this trainer is at version ", version()));
  }
  if (!Leads(ranks_)) return absl::FailedPreconditionError("only rank 0 can run a stage");
  INGOT_RETURN_IF_ERROR(CheckExamples(calls));  // now, not in the middle of the stage
  const Stage stage = StageOf(kind, threads);
  const Units units = UnitsOf(calls, stage.episodes);
  if (SftSteps(stage.options, std::ssize(units)) == 0) return absl::OkStatus();
  StageCheckpoints kept;
  if (!checkpoints.empty()) {
    INGOT_ASSIGN_OR_RETURN(const auto start, TakeSnapshot());
    kept = StageCheckpoints(checkpoints, start->checksum(), calls);
  }
  INGOT_ASSIGN_OR_RETURN(const CheckpointInfo newest, kept.Newest());
  absl::Status status = BeginStage(kind, newest.path, threads);
  if (status.ok()) status = RunStageSteps(calls, units, observer, kept, newest.step);
  if (ranks_ != nullptr && ranks_->broken()) return status;
  const absl::Status ended = EndStage();
  return status.ok() ? ended : status;
}

absl::Status Trainer::RunStageSteps(const std::vector<tree::CallPath>& calls, const Units& units,
                                    const SftObserver& observer, const StageCheckpoints& kept, int64_t taken) {
  const SftOptions& options = stage_->options;
  const int64_t total = SftSteps(options, std::ssize(units)), every = options.checkpoint_every;
  stage_->skipped.NoteSound(taken - 1);
  const auto run = [&](int64_t step, double learning_rate) {
    const std::vector<int64_t> chosen = SftBatch(options, std::ssize(units), options_.seed, step);
    return StageStep(Choose(calls, units, stage_->episodes, chosen), step, learning_rate);
  };
  for (int64_t step = taken; step < total; ++step) {
    SftReport report{step, total, {}};
    INGOT_ASSIGN_OR_RETURN(report.metrics, run(step, LearningRate(options.optimizer, step, total)));
    if (step + 1 == total && stage_->skipped.not_finite() > 0) INGOT_RETURN_IF_ERROR(CheckSound(run));
    const absl::Status reported = observer ? observer(report) : absl::OkStatus();
    const bool due = step + 1 == total || (every > 0 && (step + 1) % every == 0);
    absl::Status saved;
    if (kept.kept() && (due || !reported.ok())) saved = Save(kept.root(), step + 1, kept.files()).status();
    policy_.DropSnapshot();
    INGOT_RETURN_IF_ERROR(reported);
    INGOT_RETURN_IF_ERROR(saved);
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckSound(const std::function<absl::StatusOr<StepMetrics>(int64_t, double)>& run) {
  const int64_t skipped = stage_->skipped.not_finite();
  if (stage_->skipped.sound() >= 0) {
    // A step at learning rate 0 leaves the weights; it changes the optimizer's state, which ends with the stage.
    stage_->skipped.Restart();
    INGOT_RETURN_IF_ERROR(run(stage_->skipped.sound(), 0).status());
    if (stage_->skipped.not_finite() == 0) return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("stage ", stage_->name, " ends on ", skipped, " skipped steps, and ",
                   stage_->skipped.sound() < 0
                       ? "no step before them succeeded"
                       : absl::StrCat("step ", stage_->skipped.sound(), ", the last successful one, now fails too"),
                   ": its weights are discarded. The log names the tensors and conversations at fault; lower ",
                   stage_->name, ".learning_rate or remove those conversations, and restart the stage"));
}

absl::Status Trainer::BeginStage(StageKind kind, const std::string& checkpoint, int threads) {
  INGOT_RETURN_IF_ERROR(orders_.BeginStage(kind, checkpoint, threads));
  stage_.emplace(StageOf(kind, threads));
  INGOT_LOG(info, "stage {}: {}", stage_->name, stage_->objective->Describe());
  UseThreads();
  stage_in_parts_ = policy_.publishes_in_parts();
  policy_.PublishInParts(false);
  const absl::Status begun = AtTorchEdge(kContext, [&]() -> absl::Status {
    policy_.reference().Drop();
    if (kind == StageKind::kDpo) INGOT_RETURN_IF_ERROR(policy_.reference().Copy(parameters()));
    policy_.UseOptimizer(stage_->options.optimizer);
    return checkpoint.empty() ? absl::OkStatus() : RestoreStage(checkpoint);
  });
  INGOT_RETURN_IF_ERROR(Agree(ranks_, begun));
  policy_.Divide(/*snapshot=*/false);
  return absl::OkStatus();
}

absl::Status Trainer::RestoreStage(const std::string& checkpoint) {
  INGOT_ASSIGN_OR_RETURN(CheckpointContents contents, ReadCheckpoint(checkpoint));
  policy_.LoadParameters(contents.parameters);
  contents.parameters = {};
  return base::Annotate(policy_.LoadOptimizer(checkpoint, contents), absl::StrCat("checkpoint ", checkpoint));
}

absl::StatusOr<StepMetrics> Trainer::StageStep(const std::vector<tree::CallPath>& calls, int64_t step,
                                               double learning_rate) {
  UseThreads();
  const auto start = clock_.Now();
  const absl::StatusOr<PreparedBatch> batch =
      stage_->episodes == 2 ? PreparePairs(calls, policy_.Limits()) : PrepareSft(calls, policy_.Limits());
  if (!batch.ok()) return ShareEarlyError(ranks_, batch.status());
  INGOT_RETURN_IF_ERROR(orders_.StageStep(calls, step, learning_rate));
  const absl::StatusOr<tree::PackedForest> forest = exchanges_.PackShare(*batch);
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, forest.status()));
  StepMetrics metrics;
  INGOT_RETURN_IF_ERROR(ShareError(
      ranks_, CheckStepFits(options_, policy_, ranks_, *forest, absl::StrCat("a step of ", stage_->name), metrics)));
  StepLoss loss(*stage_->objective, {}, *batch);
  StepTally tally;
  double grad_norm = 0;
  std::string fault;
  const absl::Status status = AtTorchEdge(kContext, [&]() -> absl::Status {
    policy_.optimizer().ZeroGrad();
    BatchGradient gradient(options_, policy_, exchanges_, clock_, *batch, *forest, loss);
    tally = gradient.Accumulate(PolicyReader(), /*variance=*/false);
    grad_norm = policy_.optimizer().GradNorm();
    fault = gradient.FindFault(tally, grad_norm);
    if (!fault.empty()) return absl::OkStatus();
    policy_.BeginUpdate();
    policy_.optimizer().Step(learning_rate, grad_norm);
    stage_->skipped.NoteSound(step);
    return absl::OkStatus();
  });
  policy_.optimizer().ZeroGrad();
  policy_.ReleaseLayer();
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, status));
  if (!fault.empty()) {
    stage_->skipped.NoteNotFinite();
    INGOT_RETURN_IF_ERROR(
        stage_->skipped.Count(absl::StrCat(stage_->name, " step ", step),
                              absl::StrCat(fault, "; a lower ", stage_->name, ".learning_rate may help")));
  }
  OfferTensorMemory();
  const auto unmerged = static_cast<double>(batch->unmerged_tokens);
  const double seconds = Seconds(clock_.Now() - start);
  metrics[stage_->name + "/skipped"] = fault.empty() ? 0 : 1;
  if (fault.empty()) {
    metrics[stage_->name + "/loss"] = tally.plain.loss;
    metrics[stage_->name + "/grad_norm"] = grad_norm;
    for (const auto& [name, value] : tally.sums.means) metrics[name] = value.mean();
  }
  metrics[stage_->name + "/learning_rate"] = learning_rate;
  metrics[stage_->name + "/tokens_per_second"] = seconds > 0 ? unmerged / seconds : 0;
  metrics["tree/token_ratio"] = unmerged / static_cast<double>(tally.plain.merged_tokens);
  exchanges_.ReportBalance(tally, metrics);
  bound_.Report(tally, metrics);
  return metrics;
}

absl::Status Trainer::EndStage() {
  INGOT_RETURN_IF_ERROR(orders_.EndStage());
  stage_.reset();
  skipped_.NoteSound(version());
  policy_.PublishInParts(stage_in_parts_);
  const absl::Status ended = AtTorchEdge(kContext, [&]() -> absl::Status {
    policy_.reference().Drop();
    policy_.Unite();
    policy_.UseOptimizer(options_.optimizer);
    base::ReturnFreedMemory();
    ReleaseTensorMemory();  // the stage's steps may have been larger
    return policy_.reference().Start(parameters());
  });
  return Agree(ranks_, ended);
}

}  // namespace ingot::trainer
