#include "model/transformer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/torch/layers.h"
#include "kernels/torch/linear.h"
#include "kernels/torch/typed.h"

namespace ingot::model {

// The tensors of one layer, looked up once.
struct Transformer::Layer {
  at::Tensor input_norm, q, k, v, o, q_bias, k_bias, v_bias, o_bias, q_norm, k_norm;
  at::Tensor post_norm, gate, up, down;
};

namespace {

absl::Status CheckTensors(const ModelConfig& config, const Parameters& parameters) {
  for (const auto& [name, shape] : Parameters::Shapes(config)) {
    const auto found = parameters.tensors().find(name);
    if (found == parameters.tensors().end() || !found->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("the model has no parameter '", name, "'"));
    }
    const at::Tensor& first = parameters.tensors().at("model.embed_tokens.weight");
    const at::Tensor& t = found->second;
    if (t.sizes() != at::IntArrayRef(shape) || t.scalar_type() != first.scalar_type() || t.device() != first.device() ||
        !t.is_contiguous()) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", name,
                                                     "' has another shape than the configuration, ",
                                                     "or another dtype or device than the embedding, or is not dense"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, Parameters parameters, std::shared_ptr<const RopeTables> rope)
    : config_(config), parameters_(std::move(parameters)) {
  auto layers = std::make_shared<std::vector<Layer>>(config_.num_hidden_layers);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    Layer& layer = (*layers)[i];
    const std::string prefix = absl::StrCat("model.layers.", i, "."), attention = prefix + "self_attn.";
    const auto optional = [&](const std::string& name) {
      const auto found = parameters_.tensors().find(name);
      return found == parameters_.tensors().end() ? at::Tensor() : found->second;
    };
    layer.input_norm = parameters_.at(prefix + "input_layernorm.weight");
    layer.post_norm = parameters_.at(prefix + "post_attention_layernorm.weight");
    layer.q = parameters_.at(attention + "q_proj.weight");
    layer.k = parameters_.at(attention + "k_proj.weight");
    layer.v = parameters_.at(attention + "v_proj.weight");
    layer.o = parameters_.at(attention + "o_proj.weight");
    layer.q_bias = optional(attention + "q_proj.bias");
    layer.k_bias = optional(attention + "k_proj.bias");
    layer.v_bias = optional(attention + "v_proj.bias");
    layer.o_bias = optional(attention + "o_proj.bias");
    layer.q_norm = optional(attention + "q_norm.weight");
    layer.k_norm = optional(attention + "k_norm.weight");
    layer.gate = parameters_.at(prefix + "mlp.gate_proj.weight");
    layer.up = parameters_.at(prefix + "mlp.up_proj.weight");
    layer.down = parameters_.at(prefix + "mlp.down_proj.weight");
  }
  layers_ = std::move(layers);
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

at::Tensor Transformer::Embed(const at::Tensor& token_ids) const {
  return at::embedding(parameters_.at("model.embed_tokens.weight"), token_ids);
}

void Transformer::AddEmbedGradient(const at::Tensor& token_ids, const at::Tensor& grad) const {
  const at::Tensor& weight = parameters_.at("model.embed_tokens.weight");
  if (weight.requires_grad()) kernels::AddEmbeddingGradient(token_ids, grad, weight);
}

at::Tensor Transformer::RunLayer(int64_t index, const at::Tensor& input, const at::Tensor& positions,
                                 AttentionBackend& attention) const {
  using kernels::LinearOp;
  using kernels::LinearsOp;
  using kernels::NormRotateOp;
  const int64_t rows = input.size(0), heads = config_.num_attention_heads, kv_heads = config_.num_key_value_heads;
  const int64_t head_dim = config_.head_dim;
  const double eps = config_.rms_norm_eps;
  const Layer& layer = (*layers_)[static_cast<size_t>(index)];
  const std::vector<at::Tensor> qkv =
      LinearsOp(kernels::RmsNormOp(input, layer.input_norm, eps), {layer.q, layer.k, layer.v},
                {layer.q_bias, layer.k_bias, layer.v_bias});
  const at::Tensor q = qkv[0].view({rows, heads, head_dim}), k = qkv[1].view({rows, kv_heads, head_dim});
  const at::Tensor attended =
      attention.Attend(index, NormRotateOp(q, layer.q_norm, eps, rope_->cos(), rope_->sin(), positions),
                       NormRotateOp(k, layer.k_norm, eps, rope_->cos(), rope_->sin(), positions),
                       qkv[2].view({rows, kv_heads, head_dim}));
  const at::Tensor projected = LinearOp(attended.reshape({rows, heads * head_dim}), layer.o, layer.o_bias);
  const auto [x, h] = kernels::ResidualNormOp(input, projected, layer.post_norm, eps);
  const std::vector<at::Tensor> gate_up = LinearsOp(h, {layer.gate, layer.up});
  return x + LinearOp(kernels::SwiGluOp(gate_up[0], gate_up[1]), layer.down, {});
}

at::Tensor Transformer::Norm(const at::Tensor& x) const {
  return kernels::RmsNormOp(x, parameters_.at("model.norm.weight"), config_.rms_norm_eps);
}

at::Tensor Transformer::Hidden(const at::Tensor& token_ids, const at::Tensor& positions,
                               AttentionBackend& attention) const {
  at::Tensor x = Embed(token_ids);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i) x = RunLayer(i, x, positions, attention);
  return Norm(x);
}

const at::Tensor& Transformer::head() const {
  return parameters_.at(config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}

at::Tensor Transformer::Logits(const at::Tensor& hidden) const { return kernels::WideLinearOp(hidden, head()); }

}  // namespace ingot::model
