// Computes the gradient of one batch, RL or supervised, on all ranks together. Each rank runs its share of the calls,
// and the parameters' owners receive the sum.
//
//   scores       log-probs that the loss needs before a gradient, from the reference policy or for the whole batch
//   variance     on some steps: the gradients of individual groups (update_variance.h)
//   gradient     part by part; the end of a part is a slot, where ranks exchange its gradients (sharded_adamw.h)
//   tally        sums over all ranks, including the experts' loads
//
// The gradient stays in the policy's optimizer. One object per step. All ranks must call all functions together, on one
// thread per rank. They throw c10::Error and StatusError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "trainer/batch.h"
#include "trainer/draft/draft_pass.h"
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
  // `forest` is this rank's share of `batch`. `loss` is a new StepLoss for the batch. The arguments must outlive this
  // object.
  BatchGradient(const TrainerOptions& options, Policy& policy, const StepExchanges& exchanges, const base::Clock& clock,
                const PreparedBatch& batch, const tree::PackedForest& forest, StepLoss& loss);

  // Accumulates the gradient. Call only once, with no gradient present. `reader` (may be empty) receives the policies
  // of the pass's rows. `variance` = measures the update's variance. `draft` observes the pass; null = no draft head is
  // trained.
  StepTally Accumulate(const PolicyReader& reader, bool variance, DraftPass* draft = nullptr);

  // Describes the tensors and calls with a non-finite loss or gradient, and destroys the gradient. Returns an empty
  // string if all are finite. `tally` is the result of Accumulate.
  std::string FindFault(const StepTally& tally, double grad_norm);

  // Returns the expert record over all ranks, or nullopt if the model has no experts. REQUIRES: Accumulate.
  const std::optional<ExpertRecord>& experts() const { return experts_; }

 private:
  // Records the scores in the loss.
  void Score(StepTally& tally);
  // Computes the gradients of a sample of groups. Clears them afterwards.
  UpdateVariance MeasureGroups();
  // Adds the gradient of this rank's share.
  void AddShare(const PolicyReader& reader, DraftPass* draft, StepTally& tally);
  struct Slots {
    PassResult pass;
    double seconds = 0, exchanging = 0;  // wall time, and the time spent in exchanges between ranks
  };
  // Adds the gradient of `loss` over `forest`, in the number of slots that all ranks agreed on.
  Slots RunSlots(const tree::PackedForest& forest, StepLoss& loss, PassOptions options);
  // Returns the options for a pass over the step's forest.
  PassOptions Pass() const;

  const TrainerOptions& options_;
  Policy& policy_;
  const StepExchanges& exchanges_;
  const base::Clock& clock_;
  const PreparedBatch& batch_;
  const tree::PackedForest& forest_;
  StepLoss& loss_;
  const RecordedRoutes routes_;          // the forest's recorded routes
  std::optional<ExpertRecord> experts_;  // experts used by the gradient
};

}  // namespace ingot::trainer
