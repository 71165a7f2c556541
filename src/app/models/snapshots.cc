#include "app/models/snapshots.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mul.h>

#include <map>

#include "app/terminal/progress.h"
#include "model/draft_head.h"
#include "model/layer_spec.h"
#include "model/mtp_head.h"
#include "model/parameters.h"
#include "model/peft.h"
#include "model/served_types.h"
#include "trainer/weights_of.h"

namespace ingot::app {

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> LoadSnapshot(const std::string& model_dir, int64_t version) {
  const Underway loading("loading " + model_dir);
  INGOT_RETURN_IF_ERROR(model::CheckServedTypes(model_dir));
  INGOT_ASSIGN_OR_RETURN(const model::ModelFolder loaded, model::LoadModelDir(model_dir));
  std::map<std::string, at::Tensor> tensors = loaded.parameters.tensors();
  INGOT_ASSIGN_OR_RETURN(model::DraftTensors draft, model::ReadDraftHead(model_dir));
  if (draft.empty()) {
    INGOT_ASSIGN_OR_RETURN(const model::MtpTensors published, model::ReadMtpHeadOrWarn(model_dir, loaded.config));
    draft = model::MtpDraft(loaded.config, published);
  }
  tensors.merge(draft);
  return trainer::SnapshotOf(version, tensors);
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> RandomSnapshot(const model::ModelConfig& shape,
                                                                        uint64_t seed) {
  return trainer::SnapshotOf(0, model::Parameters::Init(shape, seed, at::kFloat).tensors());
}

absl::StatusOr<std::shared_ptr<const weights::Snapshot>> WithAdapter(
    const std::shared_ptr<const weights::Snapshot>& base, const model::ModelConfig& shape, const std::string& dir,
    int64_t version) {
  model::ModelFolder folder{shape, trainer::ParametersOf(base)};
  INGOT_RETURN_IF_ERROR(model::AddAdapters(dir, &folder));
  const model::ModelSpec spec = model::SpecOf(folder.config);
  const double scale = folder.config.lora.alpha / static_cast<double>(folder.config.lora.rank);
  std::map<std::string, at::Tensor> factors;
  for (const auto& [name, tensor] : spec.Tensors()) {
    if (tensor->factor == model::Factor::kNone) continue;
    const at::Tensor& factor = folder.parameters.at(name);
    factors[name] = tensor->factor == model::Factor::kB ? factor * scale : factor;
  }
  return trainer::SnapshotExtending(base, version, factors);
}

absl::Status SaveSnapshot(const std::string& model_dir, const model::ModelConfig& shape,
                          const std::shared_ptr<const weights::Snapshot>& snapshot) {
  return model::SaveModelDir(model_dir, shape, trainer::ParametersOf(snapshot));
}

}  // namespace ingot::app
