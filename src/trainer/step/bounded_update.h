// The optimizer's update of one step, within the trust region if options have one (trust_region.h). All ranks measure
// the same distance and decide alike.
//
//   Choose ─▶ Reader: sees the gradient's pass ─▶ Remember ─▶ Apply: propose, measure, halve or take back
//
// Without a trust region only Apply does anything. One object per step. All functions are called together, by one
// thread a rank; they throw c10::Error and StatusError.
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
  // `metrics` get trainer/step_* and perf/step_kl_seconds if there is a trust region. All arguments outlive this.
  BoundedUpdate(const TrainerOptions& options, Policy& policy, const StepExchanges& exchanges, const base::Clock& clock,
                StepMetrics& metrics)
      : options_(options), policy_(policy), exchanges_(exchanges), clock_(clock), metrics_(metrics) {}

  // Chooses what is measured, of this rank's `forest` of `batch`. Errors as TrustRegion::Choose.
  absl::Status Choose(const PreparedBatch& batch, const tree::PackedForest& forest);
  // Sees the policies of the gradient's pass; empty = nothing to see. REQUIRES: Choose.
  PolicyReader Reader();
  // Records the policy before the update. REQUIRES: a pass with Reader has run.
  absl::Status Remember();
  // Updates the policy's weights. REQUIRES: Policy::BeginUpdate.
  void Apply(double learning_rate, double grad_norm);

 private:
  // The distance that all ranks measured. REQUIRES: a trust region, and a step that is proposed.
  PolicyShift Measure();

  const TrainerOptions& options_;
  Policy& policy_;
  const StepExchanges& exchanges_;
  const base::Clock& clock_;
  StepMetrics& metrics_;
  std::optional<TrustRegion> region_;  // empty = no trust region
};

}  // namespace ingot::trainer
