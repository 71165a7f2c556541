#include "trainer/step/bounded_update.h"

#include "base/log.h"
#include "base/work.h"
#include "kernels/torch/typed.h"

namespace ingot::trainer {

absl::Status BoundedUpdate::Choose(const PreparedBatch& batch, const tree::PackedForest& forest) {
  const TrustRegionOptions& bounds = options_.trust_region;
  if (!bounds.on()) return absl::OkStatus();
  const auto start = clock_.Now();
  const int64_t row_bytes = policy_.config().vocab_size *
                            static_cast<int64_t>(c10::elementSize(kernels::AccumulatorType(policy_.model().head())));
  INGOT_ASSIGN_OR_RETURN(region_, TrustRegion::Choose(bounds, batch, forest, bounds.MaxRows(row_bytes), options_.seed,
                                                      policy_.version(), exchanges_.rank()));
  metrics_["perf/step_kl_seconds"] = Seconds(clock_.Now() - start);
  return absl::OkStatus();
}

PolicyReader BoundedUpdate::Reader() { return region_ ? region_->Reader() : PolicyReader(); }

absl::Status BoundedUpdate::Remember() {
  if (!region_) return absl::OkStatus();
  const base::WorkPart shown("step KL: policy before the update");
  const auto start = clock_.Now();
  INGOT_RETURN_IF_ERROR(region_->Remember(policy_.model(), policy_.pass()));
  metrics_["perf/step_kl_seconds"] += Seconds(clock_.Now() - start);
  return absl::OkStatus();
}

PolicyShift BoundedUpdate::Measure() {
  const base::WorkPart shown("step KL: policy after the update");
  const PolicyShift shift = exchanges_.Sum(region_->Measure(policy_.model(), policy_.pass()));
  policy_.ReleaseLayer();  // other ranks' parameters may change now
  return shift;
}

void BoundedUpdate::Apply(double learning_rate, double grad_norm) {
  ShardedAdamW& optimizer = policy_.optimizer();
  if (!region_) return optimizer.Step(learning_rate, grad_norm);
  const TrustRegionOptions& bounds = options_.trust_region;
  optimizer.Propose(learning_rate, grad_norm);
  const auto start = clock_.Now();
  double scale = 1;
  PolicyShift shift = Measure();
  metrics_["trainer/step_kl_proposed_mean"] = shift.mean();
  metrics_["trainer/step_kl_proposed_max"] = shift.max;
  for (int64_t left = bounds.halvings; !shift.Within(bounds); --left) {
    if (left == 0) {
      optimizer.TakeBack();
      scale = 0;
      shift = {.positions = shift.positions};
      break;
    }
    optimizer.Halve();
    scale /= 2;
    shift = Measure();
  }
  if (scale > 0) optimizer.Commit();
  if (scale < 1) {
    INGOT_LOG(warn,
              "step {} is {}: it would have changed the policy by {:.3g} nats per position, and by at most {:.3g} at "
              "any of {}",
              policy_.version(), scale > 0 ? absl::StrCat("shortened to ", scale) : "undone",
              metrics_["trainer/step_kl_proposed_mean"], metrics_["trainer/step_kl_proposed_max"], shift.positions);
  }
  metrics_["trainer/step_kl_mean"] = shift.mean();
  metrics_["trainer/step_kl_max"] = shift.max;
  metrics_["trainer/step_kl_positions"] = static_cast<double>(shift.positions);
  metrics_["trainer/step_scale"] = scale;
  metrics_["perf/step_kl_seconds"] += Seconds(clock_.Now() - start);
}

}  // namespace ingot::trainer
