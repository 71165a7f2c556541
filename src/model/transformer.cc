#include "model/transformer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"
#include "kernels/torch/softmax.h"
#include "kernels/torch/typed.h"

namespace ingot::model {

namespace {

absl::Status CheckTensors(const ModelConfig& config, const Parameters& parameters) {
  const ModelSpec spec = SpecOf(config);
  for (const auto& [name, tensor] : spec.Tensors()) {
    const auto found = parameters.tensors().find(name);
    if (found == parameters.tensors().end() || !found->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("the model has no parameter '", name, "'"));
    }
    const at::Tensor& first = parameters.tensors().at("model.embed_tokens.weight");
    const at::Tensor& t = found->second;
    const bool any_type = tensor->part == Part::kCorrectionBias;  // often fp32 in a bf16 model; affects only the choice
    if (t.sizes() != at::IntArrayRef(tensor->shape) || (!any_type && t.scalar_type() != first.scalar_type()) ||
        t.device() != first.device() || !t.is_contiguous()) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", name, "' has a different shape than the configuration requires, ",
                       "has a different dtype or device than the embedding, or is not dense"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, Parameters parameters, std::shared_ptr<const RopeTables> rope)
    : config_(config), parameters_(std::move(parameters)) {
  auto blocks = std::make_shared<std::vector<Block>>();
  ModelSpec spec = SpecOf(config_);
  blocks->reserve(spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    blocks->emplace_back(static_cast<int64_t>(i), std::move(spec.layers[i]), config_.rms_norm_eps,
                         parameters_.tensors());
  }
  blocks_ = std::move(blocks);
  const at::TensorOptions options = parameters_.at("model.norm.weight").options().requires_grad(false);
  if (rope == nullptr || !rope->Fit(config_, options)) rope = std::make_shared<const RopeTables>(config_, options);
  rope_ = std::move(rope);
}

absl::StatusOr<Transformer> Transformer::Create(const ModelConfig& config, Parameters parameters,
                                                std::shared_ptr<const RopeTables> rope) {
  INGOT_RETURN_IF_ERROR(config.Validate());
  INGOT_RETURN_IF_ERROR(CheckTensors(config, parameters));
  try {
    return Transformer(config, std::move(parameters), std::move(rope));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("building the model: ", error.what()));
  }
}

at::Tensor Transformer::EmbedScale() const {  // rounded to the embedding's type, as in `transformers`
  return at::scalar_tensor(std::sqrt(static_cast<double>(config_.hidden_size)),
                           parameters_.at("model.embed_tokens.weight").options().requires_grad(false));
}

at::Tensor Transformer::Embed(const at::Tensor& token_ids) const {
  const at::Tensor& weight = parameters_.at("model.embed_tokens.weight");
  const bool history = at::GradMode::is_enabled() && weight.requires_grad();
  const at::Tensor rows = history ? at::embedding(weight, token_ids) : kernels::EmbeddingRows(weight, token_ids);
  return config_.gemma ? rows * EmbedScale() : rows;
}

void Transformer::AddEmbedGradient(const at::Tensor& token_ids, const at::Tensor& grad) const {
  const at::Tensor& weight = parameters_.at("model.embed_tokens.weight");
  if (!weight.requires_grad()) return;
  kernels::AddEmbeddingGradient(token_ids, config_.gemma ? grad * EmbedScale() : grad, weight);
}

at::Tensor Transformer::RunLayer(int64_t index, const at::Tensor& x, const at::Tensor& positions,
                                 AttentionBackend& attention, Aux* aux) const {
  return (*blocks_)[static_cast<size_t>(index)].Forward(x, positions, *rope_, attention, Communicator::Alone(), aux);
}

at::Tensor Transformer::NormWeight() const {
  const at::Tensor& weight = parameters_.at("model.norm.weight");
  return config_.centred() ? weight + 1 : weight;
}

at::Tensor Transformer::Norm(const at::Tensor& x) const {
  return kernels::RmsNormOp(x, NormWeight(), config_.rms_norm_eps);
}

at::Tensor Transformer::Hidden(const at::Tensor& token_ids, const at::Tensor& positions,
                               AttentionBackend& attention) const {
  Stream rows{Embed(token_ids), {}};
  for (const Block& block : *blocks_) {
    rows = block.Run(rows, positions, *rope_, attention, Communicator::Alone(), nullptr);
  }
  return kernels::ResidualNormOp(rows.x, rows.plus, NormWeight(), config_.rms_norm_eps).normed;
}

const at::Tensor& Transformer::head() const {
  return parameters_.at(config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}

at::Tensor Transformer::Logits(const at::Tensor& hidden) const {
  const at::Tensor logits = kernels::WideLinearOp(hidden, head());
  return config_.logit_soft_cap > 0 ? kernels::SoftCapOp(logits, config_.logit_soft_cap) : logits;
}

}  // namespace ingot::model
