// Trainer: the gradients of single groups, for the variance of the update.
#include "trainer/torch_edge.h"
#include "trainer/trainer.h"

namespace ingot::trainer {

UpdateVariance Trainer::MeasureGroups(const PreparedBatch& batch, const tree::PackedForest& share,
                                      const StepLoss& ready) {
  UpdateVariance variance(batch, options_.seed, version_);
  for (const int32_t group : variance.groups()) {
    std::vector<int32_t> calls = share.call_indices;
    std::erase_if(calls, [&](int32_t call) { return batch.calls[static_cast<size_t>(call)].group != group; });
    const absl::StatusOr<tree::PackedForest> forest = PackBatch(batch, calls);
    if (!forest.ok()) throw StatusError(forest.status());
    StepLoss loss = ready;  // its sums are not the step's
    PassOptions options = pass_options_;
    const RecordedRoutes routes(*forest, batch.calls, config(), options_.replay_routes);  // of this group's rows
    if (!routes.empty()) options.routes = &routes;
    int64_t slots = 0;
    const auto end_slot = [&] {
      optimizer_->EndSlot();
      ++slots;
    };
    options.part_done = end_slot;
    const int64_t agreed = AgreeOnSlots(*forest);
    AccumulateGradients(model_, *forest, batch.calls, loss, options);
    while (slots < agreed) end_slot();
    variance.AddGroup(optimizer_->Gradients());
    optimizer_->ZeroGrad();
  }
  return variance;
}

}  // namespace ingot::trainer
