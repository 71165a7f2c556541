// Applies one step's optimizer update, within the trust region if the options have one (trust_region.h). All ranks
// measure the same distance and make the same decision.
//
//   Choose ─▶ Reader: observes the gradient's pass ─▶ Remember ─▶ Apply: propose, measure, halve, or take back
//
// Without a trust region, only Apply has an effect. One object per step. All ranks must call all functions together, on
// one thread per rank. They throw c10::Error and StatusError.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "trainer/batch.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/parallel/step_exchanges.h"
#include "trainer/pass/head_pass.h"
#include "trainer/policy/policy.h"
#include "trainer/trust_region.h"
#include "tree/forest.h"

namespace ingot::trainer {

class BoundedUpdate {
 public:
  // Reports trainer/step_* and perf/step_kl_seconds in `metrics` if there is a trust region. The arguments must outlive
  // this object.
  BoundedUpdate(const TrainerOptions& options, Policy& policy, const StepExchanges& exchanges, const base::Clock& clock,
                StepMetrics& metrics)
      : options_(options), policy_(policy), exchanges_(exchanges), clock_(clock), metrics_(metrics) {}

  // Chooses what to measure, from this rank's `forest` of `batch`. Same errors as TrustRegion::Choose.
  absl::Status Choose(const PreparedBatch& batch, const tree::PackedForest& forest);
  // Returns a reader for the policies in the gradient pass. Empty = none needed. REQUIRES: Choose.
  PolicyReader Reader();
  // Records the policy before the update. REQUIRES: a pass with Reader has run.
  absl::Status Remember();
  // Updates the policy's weights. REQUIRES: Policy::BeginUpdate.
  void Apply(double learning_rate, double grad_norm);

 private:
  // Returns the distance over all ranks. REQUIRES: a trust region, and a proposed step.
  PolicyShift Measure();

  const TrainerOptions& options_;
  Policy& policy_;
  const StepExchanges& exchanges_;
  const base::Clock& clock_;
  StepMetrics& metrics_;
  std::optional<TrustRegion> region_;  // empty = no trust region
};

}  // namespace ingot::trainer
