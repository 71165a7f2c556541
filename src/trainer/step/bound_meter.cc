#include "trainer/step/bound_meter.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "base/log.h"
#include "base/work.h"
#include "kernels/torch/typed.h"
#include "trainer/pass/head_pass.h"
#include "trainer/pass/tensor_memory.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {

bool BoundMeter::Known() const { return rates_ && rates_->threads == at::get_num_threads(); }

void BoundMeter::Measure() {
  const base::WorkPart shown("measuring the rates for the bound");
  // Enough rows for a rate, independent of the batch, and no more than a part of the step may have.
  constexpr int64_t kRows = 1024, kStream = 2048;
  const int64_t rows = std::min(kRows, options_.micro_batch_tokens);
  const int64_t stream = std::min(kStream, options_.micro_batch_tokens);
  const at::Tensor& any = policy_.any();
  const bool narrow = kernels::AccumulatorType(any) != any.scalar_type();
  const HeadRows head(options_.logits_chunk_elements, policy_.config().vocab_size, narrow);
  const StepRates measured = StepRates::Measure(policy_.config(), any.scalar_type(), any.device(), rows,
                                                std::min(head.gradient, rows), stream);
  OfferTensorMemory();
  rates_ = Known() ? Rates{rates_->best.Best(measured), rates_->threads, rates_->times + 1}
                   : Rates{measured, at::get_num_threads(), 1};
  const StepRates& best = rates_->best;
  INGOT_LOG(info, "rates for the bound: layers {:.1f}, head {:.1f}, attention {:.1f} GFLOP/s",
            1e-9 / best.per_flop.wall, 1e-9 / best.per_head_flop.wall,
            1e-9 * AttentionFlopsPerSecond(policy_.config(), best));
}

double BoundMeter::BoundOf(const StepWork& work, const StepTally& tally) const {
  const double ranks = ranks_ == nullptr ? 1 : ranks_->size();  // assumes that each is as fast as this one
  return BoundSeconds(policy_.config(), work.WithScoring(tally.plain.scorings), rates_->best).wall / ranks;
}

void BoundMeter::MeasureFor(const StepTally& tally) {
  constexpr int kMaxMeasured = 5;
  const StepTally::Plain& plain = tally.plain;
  if (!Known()) Measure();
  if (BoundOf(plain.work, tally) > plain.pass_seconds && rates_->times < kMaxMeasured) Measure();
  const double bound = BoundOf(plain.work, tally);
  if (bound > plain.pass_seconds) rates_->best = rates_->best.Scaled(plain.pass_seconds / bound);
}

void BoundMeter::Report(const StepTally& tally, StepMetrics& metrics) {
  if (!Leads(ranks_)) return;
  const StepTally::Plain& plain = tally.plain;
  const absl::Status measured = AtTorchEdge("the rates for the bound", [&] {
    MeasureFor(tally);
    return absl::OkStatus();
  });
  if (!measured.ok()) {
    INGOT_LOG(warn, "cannot measure the step's bound: {}", measured.ToString());
    return;
  }
  const double bound = BoundOf(plain.work, tally), unmerged = BoundOf(plain.unmerged, tally);
  metrics["perf/pass_seconds"] = plain.pass_seconds;
  metrics["perf/bound_seconds"] = bound;
  metrics["perf/of_bound"] = bound / plain.pass_seconds;
  metrics["tree/speedup_bound"] = unmerged / bound;
  metrics["tree/speedup"] = unmerged / plain.pass_seconds;
}

}  // namespace ingot::trainer
