// The gradient of one batch, RL or supervised, computed by all ranks together: each runs its share of the calls, and
// the owners of the parameters get the sum.
//
//   scores       log-probs that the loss needs before a gradient: of the reference policy, or of the whole batch
//   variance     of some steps: the gradients of single groups (update_variance.h)
//   gradient     part by part; the end of a part is a slot, in which ranks exchange its gradients (sharded_adamw.h)
//   tally        sums of all ranks; so are the loads of the experts
//
// The gradient stays in the policy's optimizer. One object per step. All functions are called together, by one thread
// a rank; they throw c10::Error and StatusError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "trainer/batch.h"
#include "trainer/objectives/step_loss.h"
#include "trainer/options.h"
#include "trainer/parallel/step_exchanges.h"
#include "trainer/pass/expert_record.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/pass/recorded_routes.h"
#include "trainer/policy/policy.h"
#include "trainer/step_tally.h"
#include "trainer/update_variance.h"
#include "tree/forest.h"

namespace ingot::trainer {

class BatchGradient {
 public:
  // `forest`: this rank's share of `batch`. `loss`: of the batch, fresh. All arguments outlive this.
  BatchGradient(const TrainerOptions& options, Policy& policy, const StepExchanges& exchanges, const base::Clock& clock,
                const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss);

  // Adds up the gradient; call it once, with no gradient before. `reader` (may be empty) sees the policies of the
  // pass's rows. `variance`: measures the variance of the update.
  StepTally Accumulate(const PolicyReader& reader, bool variance);

  // Describes which tensors and calls have a loss or gradient that is not finite; empty = all are finite. Destroys the
  // gradient if one is not. `tally` of Accumulate.
  std::string FindFault(const StepTally& tally, double grad_norm);

  // What the experts did, on all ranks; empty if the model has none. REQUIRES: Accumulate.
  const std::optional<ExpertRecord>& experts() const { return experts_; }

 private:
  // Records the scores in the loss.
  void Score(StepTally& tally);
  // The gradients of a sample of groups. Leaves no gradient.
  UpdateVariance MeasureGroups();
  // Adds the gradient of this rank's share.
  void AddShare(const PolicyReader& reader, StepTally& tally);
  struct Slots {
    PassResult pass;
    double seconds = 0, exchanging = 0;  // wall time, and the part of it in exchanges between ranks
  };
  // Adds the gradient of `loss` over `forest`, in as many slots as every rank ends.
  Slots RunSlots(const tree::PackedForest& forest, StepLoss& loss, PassOptions options);
  // The options of a pass over the step's forest.
  PassOptions Pass() const;

  const TrainerOptions& options_;
  Policy& policy_;
  const StepExchanges& exchanges_;
  const base::Clock& clock_;
  const PreparedBatch& batch_;
  const tree::PackedForest& forest_;
  StepLoss& loss_;
  const RecordedRoutes routes_;          // of the forest
  std::optional<ExpertRecord> experts_;  // of the gradient
};

}  // namespace ingot::trainer
