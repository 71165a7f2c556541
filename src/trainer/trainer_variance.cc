// Trainer: the gradients of single groups, for the variance of the update.
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"

namespace ingot::trainer {

UpdateVariance Trainer::MeasureGroups(const PreparedBatch& batch, const tree::PackedForest& share,
                                      const StepLoss& ready) {
  UpdateVariance variance(batch, options_.seed, version());
  for (const int32_t group : variance.groups()) {
    std::vector<int32_t> calls = share.call_indices;
    std::erase_if(calls, [&](int32_t call) { return batch.calls[static_cast<size_t>(call)].group != group; });
    const absl::StatusOr<tree::PackedForest> forest = PackBatch(batch, calls);
    if (!forest.ok()) throw StatusError(forest.status());
    StepLoss loss = ready;  // its sums are not the step's
    PassOptions options = policy_.pass();
    const RecordedRoutes routes(*forest, batch.calls, config(), options_.replay_routes);  // of this group's rows
    if (!routes.empty()) options.routes = &routes;
    int64_t slots = 0;
    const auto end_slot = [&] {
      policy_.optimizer().EndSlot();
      ++slots;
    };
    options.part_done = end_slot;
    const int64_t agreed = exchanges_.AgreeOnSlots(*forest, options.part_tokens);
    AccumulateGradients(policy_.model(), *forest, batch.calls, loss, options);
    while (slots < agreed) end_slot();
    variance.AddGroup(policy_.optimizer().Gradients());
    policy_.optimizer().ZeroGrad();
  }
  return variance;
}

}  // namespace ingot::trainer
