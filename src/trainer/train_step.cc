// Trainer::TrainStep: gradients, probe, update, and the metrics of a step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/log.h"
#include "kernels/torch/typed.h"
#include "trainer/pass/gradient_faults.h"
#include "trainer/pass/head_pass.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/schedule.h"
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

constexpr size_t kMostNamed = 5;  // greatest number of calls to report for a gradient that is not finite

// The groups of probe calls that are scored together. fast: each call separately, as the engine ran it. exact: merged
// as in training, since merging must not change a bit.
std::vector<std::vector<int32_t>> ProbeLayout(const TrainerOptions& options, const std::vector<tree::CallPath>& calls) {
  if (options.numerics == kernels::Numerics::kExact) return {tree::OrderChainFirst(calls)};
  std::vector<std::vector<int32_t>> alone;
  for (int32_t call = 0; call < static_cast<int32_t>(calls.size()); ++call) alone.push_back({call});
  return alone;
}

}  // namespace

void Trainer::AccumulateBatch(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                              StepTally& tally) {
  const ProcessSeconds start = ClockNow();
  const double gathered = policy_.gather_seconds();
  StepTally::Plain& plain = tally.plain;
  plain.scorings =
      ScoreBefore(policy_.model(), policy_.reference().model(), forest, batch.calls, loss, StepPassOptions());
  plain.pass_seconds = ClockNow().wall - start.wall;
  plain.busy_seconds = plain.pass_seconds - (policy_.gather_seconds() - gathered);
  if (loss.needs_scores()) {
    exchanges_.ShareScores(forest, loss);
    loss.Fix(/*counts=*/exchanges_.leads());
  }
  std::optional<UpdateVariance> variance;
  if (MeasuresVariance()) {
    const auto measuring = clock_.Now();
    variance = MeasureGroups(batch, forest, loss);
    plain.variance_seconds = Seconds(clock_.Now() - measuring);
  }
  AccumulateGradient(batch, forest, loss, tally);
  if (variance) plain.spread = variance->Compare(policy_.optimizer().Gradients());
  tally.sums = loss.sums();
  tally.non_finite_calls = loss.non_finite_calls();
  exchanges_.SumTallies(batch, tally);
  if (experts_) exchanges_.SumExperts(*experts_);
}

PassOptions Trainer::StepPassOptions() const {
  PassOptions options = policy_.pass();
  if (routes_.has_value()) options.routes = &*routes_;
  return options;
}

void Trainer::AccumulateGradient(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                                 StepTally& tally) {
  PassOptions options = StepPassOptions();
  int64_t slots = 0;
  double exchanging = 0;
  const auto end_slot = [&] {
    const ProcessSeconds ended = ClockNow();
    policy_.optimizer().EndSlot();
    exchanging += ClockNow().wall - ended.wall;
    ++slots;
  };
  options.part_done = end_slot;
  if (config().experts.count > 0) {
    experts_.emplace(forest, config().num_hidden_layers, options_.expert_balance);
    experts_->SetTotal(exchanges_.Sum(experts_->calls_through()));
    options.experts = &*experts_;
  }
  if (trust_) options.read_policy = trust_->Reader();
  const int64_t agreed_slots = exchanges_.AgreeOnSlots(forest, options.part_tokens);
  const ProcessSeconds start = ClockNow();
  const double gathered = policy_.gather_seconds();
  const PassResult result = AccumulateGradients(policy_.model(), forest, batch.calls, loss, options);
  while (slots < agreed_slots) end_slot();
  exchanging += policy_.gather_seconds() - gathered;
  const double passing = ClockNow().wall - start.wall;
  StepTally::Plain& plain = tally.plain;
  plain.pass_seconds += passing;
  plain.busy_seconds += passing - exchanging;
  plain.longest_busy_seconds = plain.busy_seconds;
  plain.work = WorkOf(config(), forest, result, options);
  plain.unmerged =
      UnmergedWork(config(), batch.calls, forest.call_indices, static_cast<int64_t>(forest.entries.size()));
  plain.loss = result.loss;
  plain.merged_tokens = plain.computed_tokens = static_cast<int64_t>(forest.size());
  plain.parts = result.parts;
  plain.route_conflicts = routes_.has_value() ? routes_->conflicts() : 0;
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const tree::LossEntry& entry = forest.entries[i];
    const tree::CallPath& call = batch.calls[static_cast<size_t>(entry.call)];
    const size_t offset = static_cast<size_t>(entry.offset);
    plain.entropy.Add(result.entropy[i]);
    plain.offpolicy.Add(result.logprobs[i], call.logprobs[offset]);
    if (OnPolicy(call, offset, version())) plain.packed.Add(result.logprobs[i], call.logprobs[offset]);
  }
}

Trainer::ProbeFuture Trainer::StartProbe(const ProbeSource& probe) const {
  if (options_.probe_tokens <= 0 || probe == nullptr) return {};
  return std::async(std::launch::async, probe, version(), options_.probe_tokens);
}

void Trainer::FinishProbe(ProbeFuture fresh, StepTally& tally) const {
  if (!fresh.valid()) return;
  LogprobGap& mismatch = tally.plain.mismatch;
  const auto scored = [&]() -> absl::Status {
    INGOT_ASSIGN_OR_RETURN(const std::vector<tree::CallPath> calls, fresh.get());
    for (const tree::CallPath& call : calls) INGOT_RETURN_IF_ERROR(CheckCall(call, policy_.Limits(), true));
    for (const std::vector<int32_t>& indices : ProbeLayout(options_, calls)) {
      INGOT_ASSIGN_OR_RETURN(const tree::PackedForest forest, tree::PackForest(calls, indices));
      const RecordedRoutes routes(forest, calls, config(), options_.replay_routes);
      PassOptions pass = policy_.pass();
      pass.routes = &routes;
      const PassResult result = ScoreForest(policy_.model(), forest, calls, pass);
      for (size_t i = 0; i < forest.entries.size(); ++i) {
        const tree::CallPath& call = calls[static_cast<size_t>(forest.entries[i].call)];
        const size_t offset = static_cast<size_t>(forest.entries[i].offset);
        if (OnPolicy(call, offset, version())) mismatch.Add(result.logprobs[i], call.logprobs[offset]);
      }
    }
    return absl::OkStatus();
  }();
  if (!scored.ok() || mismatch.abs_diff.count < options_.probe_tokens) {
    INGOT_LOG(warn, "the probe at version {} has only {} of {} tokens: {}", version(), mismatch.abs_diff.count,
              options_.probe_tokens,
              scored.ok() ? "its source has no more of that version" : std::string(scored.message()));
  }
  if (options_.numerics == kernels::Numerics::kExact && mismatch.abs_diff.max > 0) {
    INGOT_LOG(warn,
              "numerics is exact, but at version {} a probe's log-prob differs from the engine's by {}: do engine and "
              "trainer run on machines with different instruction sets?",
              version(), mismatch.abs_diff.max);
  }
}

std::string Trainer::FindFault(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                               const StepTally& tally, double grad_norm) {
  if (std::isfinite(tally.plain.loss) && std::isfinite(grad_norm) && tally.non_finite_calls.empty()) return "";
  std::string tensors = NonFiniteTensors(policy_.model(), policy_.optimizer().Gradients());
  // Each call separately: in a merged forest a non-finite number reaches rows that must not see it.
  std::vector<int32_t> own = forest.call_indices;
  std::sort(own.begin(), own.end());
  const auto suspected = [&](int32_t call) {
    const std::vector<int32_t>& found = tally.non_finite_calls;
    return found.empty() || std::find(found.begin(), found.end(), call) != found.end();
  };
  std::erase_if(own, [&](int32_t call) { return !suspected(call); });
  std::vector<int32_t> calls =
      CallsWithoutFiniteGradient(policy_.model(), batch, own, loss, policy_.pass(), kMostNamed);
  exchanges_.CollectFaults(tensors, calls);
  return absl::StrCat("loss ", tally.plain.loss, ", gradient norm ", grad_norm, ": not finite for ",
                      NameCalls(batch, calls), tensors.empty() ? "" : "; ", tensors);
}

std::string Trainer::Optimize(const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss,
                              const StepTally& tally, StepMetrics& metrics) {
  const double grad_norm = policy_.optimizer().GradNorm();
  const std::string fault = FindFault(batch, forest, loss, tally, grad_norm);
  if (!fault.empty()) {
    return fault + "; a lower learning rate, a tighter clip or a resume from an earlier checkpoint may help";
  }
  const double rate = LearningRate(options_.optimizer, version(), options_.total_steps);
  policy_.BeginUpdate();
  if (ResetsOptimizer()) policy_.optimizer().Reset();
  UpdateWeights(rate, grad_norm, metrics);
  if (experts_.has_value()) {
    if (options_.expert_bias_rate > 0) UpdateRouterBiases(policy_.model(), *experts_, options_.expert_bias_rate);
    experts_->Report(metrics);
  }
  stepped_at_ = clock_.Now();
  policy_.GatherSnapshot(version() + 1);
  metrics["actor/grad_norm"] = grad_norm;
  metrics["actor/learning_rate"] = rate;
  return "";
}

PolicyShift Trainer::MeasureShift() {
  const PolicyShift shift = exchanges_.Sum(trust_->Measure(policy_.model(), policy_.pass()));
  policy_.ReleaseLayer();  // other ranks' parameters may change now
  return shift;
}

void Trainer::UpdateWeights(double learning_rate, double grad_norm, StepMetrics& metrics) {
  if (!trust_) return policy_.optimizer().Step(learning_rate, grad_norm);
  const TrustRegionOptions& bounds = options_.trust_region;
  policy_.optimizer().Propose(learning_rate, grad_norm);
  const auto start = clock_.Now();
  double scale = 1;
  PolicyShift shift = MeasureShift();
  metrics["trainer/step_kl_proposed_mean"] = shift.mean();
  metrics["trainer/step_kl_proposed_max"] = shift.max;
  for (int64_t left = bounds.halvings; !shift.Within(bounds); --left) {
    if (left == 0) {
      policy_.optimizer().TakeBack();
      scale = 0;
      shift = {.positions = shift.positions};
      break;
    }
    policy_.optimizer().Halve();
    scale /= 2;
    shift = MeasureShift();
  }
  if (scale > 0) policy_.optimizer().Commit();
  if (scale < 1) {
    INGOT_LOG(warn,
              "step {} is {}: it would have moved the policy by {:.3g} nats per position, {:.3g} at the largest of {}",
              version(), scale > 0 ? absl::StrCat("shortened to ", scale) : "taken back",
              metrics["trainer/step_kl_proposed_mean"], metrics["trainer/step_kl_proposed_max"], shift.positions);
  }
  metrics["trainer/step_kl_mean"] = shift.mean();
  metrics["trainer/step_kl_max"] = shift.max;
  metrics["trainer/step_kl_positions"] = static_cast<double>(shift.positions);
  metrics["trainer/step_scale"] = scale;
  metrics["perf/step_kl_seconds"] += Seconds(clock_.Now() - start);
}

absl::Status Trainer::CountSkipped(const std::string& step, const std::string& why) {
  if (skipped_in_a_row_ >= options_.max_skipped_steps) {
    return absl::InternalError(absl::StrCat(step, " cannot be made, after ", skipped_in_a_row_,
                                            " skipped in a row (max_skipped_steps ", options_.max_skipped_steps,
                                            "); nothing was changed: ", why));
  }
  ++skipped_in_a_row_;
  INGOT_LOG(warn, "{} is skipped ({} of at most {} in a row): {}", step, skipped_in_a_row_, options_.max_skipped_steps,
            why);
  return absl::OkStatus();
}

absl::StatusOr<StepReport> Trainer::Skip(PreparedBatch batch, const std::string& why) {
  INGOT_RETURN_IF_ERROR(CountSkipped(absl::StrCat("step ", version()), why));
  if (ResetsOptimizer()) policy_.optimizer().Reset();
  INGOT_RETURN_IF_ERROR(policy_.AdvanceUnchanged());
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, policy_.reference().MoveIfDue(parameters(), version())));
  batch.metrics["trainer/skipped"] = 1;
  std::erase_if(batch.metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  return StepReport{version() - 1, version(), std::move(batch.metrics), std::move(batch.staleness_histogram), {}};
}

absl::StatusOr<StepReport> Trainer::TrainStep(const TrainBatch& batch, const ProbeSource& probe) {
  UseThreads();
  const auto start = clock_.Now();
  if (batch.step != version()) {
    const absl::Status disorder = absl::InvalidArgumentError(
        absl::StrCat("batch ", batch.step, " cannot be trained at version ", version(), ": batches come in order"));
    return ShareEarlyError(ranks_, disorder);
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

  StepTally tally;
  StepMetrics& metrics = prepared->metrics;
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, CheckStep(*forest, metrics)));
  StepLoss loss(*objective_, CoefficientsOf(options_), *prepared, options_.off_policy_mask);
  std::string fault;
  const absl::Status status = AtTorchEdge(absl::StrCat("step ", batch.step), [&]() -> absl::Status {
    policy_.Divide(/*snapshot=*/true);
    policy_.optimizer().ZeroGrad();
    if (options_.trust_region.on()) {
      const auto choosing = clock_.Now();
      const int64_t row_bytes =
          config().vocab_size *
          static_cast<int64_t>(c10::elementSize(kernels::AccumulatorType(policy_.model().head())));
      INGOT_ASSIGN_OR_RETURN(trust_, TrustRegion::Choose(options_.trust_region, *prepared, *forest,
                                                         options_.trust_region.MostRows(row_bytes), options_.seed,
                                                         version(), exchanges_.rank()));
      metrics["perf/step_kl_seconds"] = Seconds(clock_.Now() - choosing);
    }
    ProbeFuture fresh = StartProbe(probe);
    routes_.emplace(*forest, prepared->calls, config(), options_.replay_routes);
    AccumulateBatch(*prepared, *forest, loss, tally);
    const auto accumulated = clock_.Now();
    FinishProbe(std::move(fresh), tally);
    metrics["perf/probe_seconds"] = Seconds(clock_.Now() - accumulated);
    if (trust_) {
      const auto probed = clock_.Now();
      INGOT_RETURN_IF_ERROR(trust_->Remember(policy_.model(), policy_.pass()));
      metrics["perf/step_kl_seconds"] += Seconds(clock_.Now() - probed);
    }
    fault = Optimize(*prepared, *forest, loss, tally, metrics);
    return absl::OkStatus();
  });
  trust_.reset();
  if (experts_.has_value()) prepared->expert_loads = experts_->Loads();
  experts_.reset();
  routes_.reset();
  policy_.optimizer().ZeroGrad();
  policy_.ReleaseLayer();
  OfferTensorMemory();
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, status));
  // Without a probe the batch's own tokens stand in for it.
  if (probe == nullptr || options_.probe_tokens == 0) tally.plain.mismatch = tally.plain.packed;
  if (fault.empty()) {
    for (const auto& [name, value] : tally.sums.means) metrics[name] = value.mean();
    for (const auto& [name, value] : tally.sums.maxima) metrics[name] = value.max;
  }
  Report(*prepared, tally, metrics);
  exchanges_.ReportBalance(tally, metrics);
  metrics["perf/data_seconds"] = Seconds(packed - start);
  metrics["perf/train_seconds"] = Seconds(clock_.Now() - packed);
  ReportBound(tally, metrics);
  if (!fault.empty()) {
    ++not_finite_in_a_row_;
    return Skip(*std::move(prepared), fault);
  }
  NoteSound(version());
  policy_.Advance();
  INGOT_RETURN_IF_ERROR(ShareError(ranks_, policy_.reference().MoveIfDue(parameters(), version())));
  return StepReport{batch.step,
                    version(),
                    std::move(prepared->metrics),
                    std::move(prepared->staleness_histogram),
                    std::move(prepared->expert_loads),
                    stepped_at_};
}

void Trainer::MeasureRates() {
  // Enough rows for a rate, independent of the batch, and no more than a part of the step may have.
  constexpr int64_t kRows = 1024, kStream = 2048;
  const int64_t rows = std::min(kRows, options_.micro_batch_tokens);
  const at::Tensor& any = parameters().tensors().begin()->second;
  const bool narrow = kernels::AccumulatorType(any) != any.scalar_type();
  const HeadRows head(options_.logits_chunk_elements, config().vocab_size, narrow);
  const StepRates measured =
      StepRates::Measure(config(), any.scalar_type(), any.device(), rows, std::min(head.gradient, rows), kStream);
  OfferTensorMemory();
  const bool again = rates_ && rates_->threads == at::get_num_threads();
  rates_ = again ? KnownRates{rates_->best.Best(measured), rates_->threads, rates_->times + 1}
                 : KnownRates{measured, at::get_num_threads(), 1};
  const StepRates& best = rates_->best;
  INGOT_LOG(info, "rates of the bound: layers {:.1f}, head {:.1f}, attention {:.1f} GFLOP/s", 1e-9 / best.per_flop.wall,
            1e-9 / best.per_head_flop.wall, 1e-9 * AttentionFlopsPerSecond(config(), best));
}

void Trainer::ReportBound(const StepTally& tally, StepMetrics& metrics) {
  if (!Leads(ranks_)) return;
  constexpr int kMostMeasured = 5;
  const StepTally::Plain& plain = tally.plain;
  const double ranks = ranks_ == nullptr ? 1 : ranks_->size();  // each as fast as this one
  const auto bound_of = [&](const StepWork& work) {
    return BoundSeconds(config(), work.WithScoring(plain.scorings), rates_->best).wall / ranks;
  };
  const absl::Status measured = AtTorchEdge("the rates of the bound", [&] {
    if (!rates_ || rates_->threads != at::get_num_threads()) MeasureRates();
    // A step faster than its bound: other processes used the processors while the rates were measured.
    if (bound_of(plain.work) > plain.pass_seconds && rates_->times < kMostMeasured) MeasureRates();
    return absl::OkStatus();
  });
  if (!measured.ok()) {
    INGOT_LOG(warn, "cannot measure the step's bound: {}", measured.ToString());
    return;
  }
  const double bound = bound_of(plain.work), unmerged = bound_of(plain.unmerged);
  metrics["perf/pass_seconds"] = plain.pass_seconds;
  metrics["perf/bound_seconds"] = bound;
  metrics["perf/of_bound"] = bound / plain.pass_seconds;
  metrics["tree/speedup_bound"] = unmerged / bound;
  metrics["tree/speedup"] = unmerged / plain.pass_seconds;
}

void Trainer::Report(const PreparedBatch& batch, const StepTally& tally, StepMetrics& metrics) const {
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

}  // namespace ingot::trainer
