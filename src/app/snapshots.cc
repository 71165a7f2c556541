#include "app/snapshots.h"

#include "model/parameters.h"
#include "trainer/weights_of.h"

namespace ingot::app {

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> LoadSnapshot(const std::string& model_dir, int64_t version) {
  INGOT_ASSIGN_OR_RETURN(const model::ModelFolder loaded, model::LoadModelDir(model_dir));
  return trainer::SnapshotOf(version, loaded.parameters.tensors());
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> RandomSnapshot(const model::ModelConfig& shape,
                                                                        uint64_t seed) {
  return trainer::SnapshotOf(0, model::Parameters::Init(shape, seed, at::kFloat).tensors());
}

absl::Status SaveSnapshot(const std::string& model_dir, const model::ModelConfig& shape,
                          const std::shared_ptr<const weights::Snapshot>& snapshot) {
  return model::SaveModelDir(model_dir, shape, trainer::ParametersOf(snapshot));
}

}  // namespace ingot::app
