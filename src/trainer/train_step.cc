// Implements Trainer::TrainStep: the sequence of a step, and its metrics.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/work.h"
#include "kernels/torch/threads.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/run_memory.h"
#include "trainer/schedule.h"
#include "trainer/step/batch_gradient.h"
#include "trainer/step/bounded_update.h"
#include "trainer/step/probe_run.h"
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

void ReportTally(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics) {
  const StepTally::Plain& plain = tally.plain;
  metrics["trainer/skipped"] = 0;
  metrics["actor/loss"] = plain.loss;
  metrics["actor/entropy"] = plain.entropy.mean();
  plain.offpolicy.Report("offpolicy", metrics);
  plain.mismatch.Report("mismatch", metrics);
  if (plain.packed.abs_diff.count > 0) {
    metrics["mismatch/packed_logprob_abs_diff_max"] = plain.packed.abs_diff.max;
  }
  metrics["mismatch/packed_tokens"] = static_cast<double>(plain.packed.abs_diff.count);
  if (plain.spread.groups > 0 && plain.spread.length > 0) {
    metrics["trainer/update_variance"] = plain.spread.apart / plain.spread.length;
    metrics["perf/update_variance_seconds"] = plain.variance_seconds;
  }
  metrics["mismatch/probe_tokens"] = static_cast<double>(plain.mismatch.abs_diff.count);
  metrics["tree/token_ratio"] = static_cast<double>(batch.unmerged_tokens) / static_cast<double>(plain.merged_tokens);
  metrics["tree/merged_tokens"] = static_cast<double>(plain.merged_tokens);
  if (metrics.contains("mismatch/routes_compared")) {
    metrics["mismatch/routes_conflicts"] = static_cast<double>(plain.route_conflicts);
  }
  metrics["tree/parts"] = static_cast<double>(plain.parts);
  metrics["tree/unmerged_tokens"] = static_cast<double>(batch.unmerged_tokens);
}

}  // namespace

bool Trainer::MeasuresVariance() const {
  const int64_t every = options_.update_variance_every;
  return every > 0 && version() % every == every - 1;
}

bool Trainer::ResetsOptimizer() const {
  return options_.optimizer_reset_every > 0 && version() % options_.optimizer_reset_every == 0;
}

absl::StatusOr<StepReport> Trainer::TrainStep(const TrainBatch& batch, const ProbeSource& probe) {
  const base::WorkPart shown(absl::StrCat("step ", batch.step));
  UseThreads();
  const kernels::Computing computing(compute_.get());
  const auto start = clock_.Now();
  if (batch.step != version()) {
    return ShareEarlyError(
        ranks_, absl::InvalidArgumentError(absl::StrCat("batch ", batch.step, " cannot be trained at version ",
                                                        version(), ": batches must be trained in order")));
  }
  next_group_ = std::max(next_group_, batch.feed.next_group());
  parts_.DropBefore();
  absl::StatusOr<PreparedBatch> prepared = PrepareBatch(batch, options_, policy_.Limits(), version());
  if (!prepared.ok()) return ShareEarlyError(ranks_, prepared.status());
  INGOT_RETURN_IF_ERROR(orders_.Step(batch));
  if (prepared->loss_tokens == 0 || !prepared->reward_fault.empty()) {
    const std::string why = prepared->reward_fault.empty() ? prepared->empty_reason : prepared->reward_fault;
    return Skip(*std::move(prepared), why);
  }
  const absl::StatusOr<tree::PackedForest> forest = exchanges_.PackShare(*prepared);
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, forest.status()));
  const auto packed = clock_.Now();

  StepMetrics& metrics = prepared->metrics;
  INGOT_RETURN_IF_ERROR(
      ShareError(ranks_, CheckStepFits(options_, policy_, ranks_, *forest, absl::StrCat("step ", version()), metrics)));
  INGOT_ASSIGN_OR_RETURN(const Outcome outcome, RunStep(*prepared, *forest, probe));
  const auto& [tally, fault, stepped_at] = outcome;
  if (fault.empty()) {
    for (const auto& [name, value] : tally.sums.means) metrics[name] = value.mean();
    for (const auto& [name, value] : tally.sums.maxima) metrics[name] = value.max;
  }
  ReportTally(*prepared, tally, metrics);
  exchanges_.ReportBalance(tally, metrics);
  metrics["perf/data_seconds"] = Seconds(packed - start);
  metrics["perf/train_seconds"] = Seconds(clock_.Now() - packed);
  bound_.Report(tally, metrics);
  if (!fault.empty()) {
    skipped_.NoteNotFinite();
    return Skip(*std::move(prepared), fault);
  }
  skipped_.NoteSound(version());
  policy_.Advance();
  PublishDraft();
  INGOT_RETURN_IF_ERROR(MoveReference());
  return StepReport{batch.step,
                    version(),
                    std::move(prepared->metrics),
                    std::move(prepared->staleness_histogram),
                    std::move(prepared->expert_loads),
                    stepped_at};
}

absl::StatusOr<Trainer::Outcome> Trainer::RunStep(PreparedBatch& batch, const tree::PackedForest& forest,
                                                  const ProbeSource& probe) {
  Outcome outcome;
  StepMetrics& metrics = batch.metrics;
  StepLoss loss(*objective_, CoefficientsOf(options_), batch, options_.off_policy_mask);
  const absl::Status status = AtTorchEdge(absl::StrCat("step ", version()), [&]() -> absl::Status {
    policy_.Divide(/*snapshot=*/true);
    policy_.optimizer().ZeroGrad();
    BoundedUpdate update(options_, policy_, exchanges_, clock_, metrics);
    INGOT_RETURN_IF_ERROR(update.Choose(batch, forest));
    ProbeRun fresh(options_, policy_, probe);
    BatchGradient gradient(options_, policy_, exchanges_, clock_, batch, forest, loss);
    DraftPass* const draft = draft_ == nullptr ? nullptr : &draft_->Begin(forest, batch.calls, version());
    outcome.tally = gradient.Accumulate(update.Reader(), MeasuresVariance(), draft);
    if (draft != nullptr) draft_->Learn(metrics);
    const auto accumulated = clock_.Now();
    fresh.Finish(outcome.tally.plain.mismatch);
    metrics["perf/probe_seconds"] = Seconds(clock_.Now() - accumulated);
    INGOT_RETURN_IF_ERROR(update.Remember());
    Update(gradient, update, metrics, outcome);
    if (draft_ != nullptr && outcome.fault.empty()) draft_->Apply(metrics);
    if (gradient.experts()) batch.expert_loads = gradient.experts()->Loads();
    ReportDevicePeak(policy_.device(), metrics);
    return absl::OkStatus();
  });
  if (draft_ != nullptr) draft_->Drop();
  policy_.optimizer().ZeroGrad();
  policy_.ReleaseLayer();
  OfferTensorMemory();
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, status));
  // Without a probe, the batch's own tokens replace it.
  StepTally::Plain& plain = outcome.tally.plain;
  if (probe == nullptr || options_.probe_tokens == 0) plain.mismatch = plain.packed;
  return outcome;
}

void Trainer::Update(BatchGradient& gradient, BoundedUpdate& update, StepMetrics& metrics, Outcome& outcome) {
  const base::WorkPart shown("weight update");
  const double grad_norm = policy_.optimizer().GradNorm();
  const std::string fault = gradient.FindFault(outcome.tally, grad_norm);
  if (!fault.empty()) {
    outcome.fault = fault + "; a lower learning rate, a tighter clip, or resuming from an earlier checkpoint may help";
    return;
  }
  const double rate = LearningRate(options_.optimizer, version(), options_.total_steps);
  policy_.BeginUpdate();
  if (ResetsOptimizer()) policy_.optimizer().Reset();
  update.Apply(rate, grad_norm);
  if (const std::optional<ExpertRecord>& experts = gradient.experts()) {
    if (options_.expert_bias_rate > 0) UpdateRouterBiases(policy_.model(), *experts, options_.expert_bias_rate);
    experts->Report(metrics);
  }
  outcome.stepped_at = clock_.Now();
  policy_.GatherSnapshot(version() + 1);
  metrics["actor/grad_norm"] = grad_norm;
  metrics["actor/learning_rate"] = rate;
}

absl::StatusOr<StepReport> Trainer::Skip(PreparedBatch batch, const std::string& why) {
  INGOT_RETURN_IF_ERROR(skipped_.Count(absl::StrCat("step ", version()), why));
  if (ResetsOptimizer()) policy_.optimizer().Reset();
  INGOT_RETURN_IF_ERROR(policy_.AdvanceUnchanged());
  INGOT_RETURN_IF_ERROR(MoveReference());
  batch.metrics["trainer/skipped"] = 1;
  std::erase_if(batch.metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  return StepReport{version() - 1, version(), std::move(batch.metrics), std::move(batch.staleness_histogram), {}};
}

void Trainer::PublishDraft() {
  if (draft_ != nullptr && draft_->PublishIfDue(version())) policy_.Carry(draft_->published());
}

absl::Status Trainer::MoveReference() {
  const base::WorkPart shown("reference policy");
  return ShareError(ranks_, policy_.reference().MoveIfDue(parameters(), version()));
}

}  // namespace ingot::trainer
