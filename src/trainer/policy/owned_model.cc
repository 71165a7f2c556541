#include "trainer/policy/owned_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <utility>

#include "model/layer_spec.h"

namespace ingot::trainer {
namespace {

absl::StatusOr<model::Transformer> OwnedModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                              at::Device device, const std::string& dtype, bool trainable, bool copy) {
  const at::NoGradGuard no_history;
  const model::ModelSpec spec = model::SpecOf(config);
  const auto table = spec.Tensors();
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters.tensors()) {
    const auto entry = table.find(name);
    const bool trained = trainable && (entry == table.end() || entry->second->trained);
    // A bias changes by a small constant, which bf16 would round away.
    const bool bias = entry != table.end() && entry->second->part == model::Part::kCorrectionBias;
    const at::ScalarType asked = HeldType(dtype, tensor.scalar_type());
    const at::ScalarType type = bias ? at::promote_types(asked, at::kFloat) : asked;
    if (trainable && type == at::kHalf) {
      return absl::InvalidArgumentError(
          "the model's weights are fp16, whose smallest numbers are larger than most gradients: set trainer.dtype to "
          "bf16 or fp32 (a frozen base model uses the adapters' type)");
    }
    tensors[name] = tensor.detach()
                        .to(tensor.options().device(device).dtype(type), /*non_blocking=*/false, copy)
                        .contiguous()
                        .requires_grad_(trained);
  }
  INGOT_ASSIGN_OR_RETURN(model::Parameters owned, model::Parameters::FromTensors(config, std::move(tensors)));
  return model::Transformer::Create(config, std::move(owned));
}

}  // namespace

at::ScalarType HeldType(const std::string& dtype, at::ScalarType given) {
  if (dtype == "model") return given;
  return dtype == "bf16" ? at::kBFloat16 : at::kFloat;
}

absl::StatusOr<model::Transformer> TrainedModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                                at::Device device, const std::string& dtype, bool copy) {
  return OwnedModel(config, parameters, device, dtype, /*trainable=*/true, copy);
}

absl::StatusOr<model::Transformer> FrozenModel(const model::ModelConfig& config, const model::Parameters& parameters,
                                               at::Device device, const std::string& dtype) {
  return OwnedModel(config, parameters, device, dtype, /*trainable=*/false, /*copy=*/true);
}

}  // namespace ingot::trainer
