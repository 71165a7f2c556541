#include "trainer/policy/reference_policy.h"

#include <utility>

#include "trainer/checkpoints/checkpoint.h"
#include "trainer/policy/owned_model.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {

absl::Status ReferencePolicy::Copy(const model::Parameters& policy) {
  const at::Device device = policy.tensors().begin()->second.device();
  INGOT_ASSIGN_OR_RETURN(model_, FrozenModel(config_, policy, device, options_.dtype));
  return absl::OkStatus();
}

absl::Status ReferencePolicy::Start(const model::Parameters& start) {
  if (!options_.needs_reference()) return absl::OkStatus();
  return options_.reference_path.empty() ? Copy(start) : Load(start.tensors().begin()->second.device());
}

absl::Status ReferencePolicy::Load(at::Device device) {
  const std::string context = absl::StrCat("reference policy ", options_.reference_path);
  absl::StatusOr<model::ModelFolder> loaded = model::LoadModelDir(options_.reference_path);
  if (!loaded.ok()) return base::Annotate(loaded.status(), context);
  if (loaded->config.vocab_size != config_.vocab_size ||
      loaded->config.max_position_embeddings < config_.max_position_embeddings) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, " has a vocabulary of ", loaded->config.vocab_size, " and a context of ",
                     loaded->config.max_position_embeddings, ", but the model's are ", config_.vocab_size, " and ",
                     config_.max_position_embeddings, ": it needs the same vocabulary and at least as many positions"));
  }
  absl::StatusOr<model::Transformer> model = FrozenModel(loaded->config, loaded->parameters, device, options_.dtype);
  if (!model.ok()) return base::Annotate(model.status(), context);
  model_ = *std::move(model);
  return absl::OkStatus();
}

absl::Status ReferencePolicy::Restore(const std::string& checkpoint_path, int64_t step, at::Device device) {
  const int64_t every = options_.reference_update_every;
  if (every == 0 || step < every) {
    if (!options_.needs_reference()) return absl::OkStatus();
    if (!absl::IsNotFound(ReadReference(checkpoint_path).status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("checkpoint ", checkpoint_path, " has a reference policy that was updated, but ",
                       "trainer.reference_update_every ", every,
                       " would restore the initial policy: set the value that the checkpoint was written with"));
    }
    if (options_.reference_path.empty()) {
      return absl::FailedPreconditionError(
          "the reference policy is the run's initial policy, which later checkpoints do not contain: set "
          "trainer.reference_path to its model folder");
    }
    return Load(device);
  }
  auto tensors = ReadReference(checkpoint_path);
  if (absl::IsNotFound(tensors.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", checkpoint_path, " is at step ", step, " and has no reference policy, although ",
        "trainer.reference_update_every ", every, " would have updated it: the checkpoint was written with a larger ",
        "value or 0; set that value again, or resume from an earlier checkpoint"));
  }
  if (!tensors.ok()) return tensors.status();
  INGOT_ASSIGN_OR_RETURN(const model::Parameters loaded, model::Parameters::FromTensors(config_, *std::move(tensors)));
  INGOT_ASSIGN_OR_RETURN(model_, FrozenModel(config_, loaded, device, options_.dtype));
  return absl::OkStatus();
}

absl::Status ReferencePolicy::MoveIfDue(const model::Parameters& policy, int64_t version) {
  if (options_.reference_update_every == 0 || version % options_.reference_update_every != 0) return absl::OkStatus();
  return AtTorchEdge("the reference policy", [&] {
    Drop();  // before the copy, so that there is never more than one
    return Copy(policy);
  });
}

std::map<std::string, at::Tensor> ReferencePolicy::Saved(int64_t version) const {
  const int64_t every = options_.reference_update_every;
  return model_ && every > 0 && version >= every ? model_->parameters().tensors() : std::map<std::string, at::Tensor>();
}

}  // namespace ingot::trainer
