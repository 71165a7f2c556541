// A model small enough for exact comparisons, with every option on.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "model/layer_spec.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace ingot::trainer {

inline model::ModelConfig TinyConfig(int64_t vocab = 37) {
  model::ModelConfig config;
  config.vocab_size = vocab;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 128;
  config.tie_word_embeddings = true;
  config.qk_norm = true;
  return config;
}

// Weights so large that attention is not uniform and ratios reach the clip.
inline model::Parameters TinyParameters(const model::ModelConfig& config, uint64_t seed, at::ScalarType dtype) {
  model::Parameters parameters = model::Parameters::Init(config, seed, dtype);
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(8.0);
  }
  return parameters;
}

inline model::Transformer TrainableModel(const model::ModelConfig& config, const model::Parameters& parameters) {
  const model::ModelSpec spec = model::SpecOf(config);
  const auto table = spec.Tensors();
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters.tensors()) {
    tensors[name] = tensor.clone().requires_grad_(table.at(name)->trained);
  }
  return *model::Transformer::Create(config, *model::Parameters::FromTensors(config, std::move(tensors)));
}

// The parameters that a step changes.
inline std::map<std::string, at::Tensor> Trained(const model::Transformer& model) {
  std::map<std::string, at::Tensor> trained;
  for (const auto& [name, tensor] : model.parameters().tensors()) {
    if (tensor.requires_grad()) trained[name] = tensor;
  }
  return trained;
}

inline std::map<std::string, at::Tensor> TakeGradients(const model::Transformer& model) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, tensor] : model.parameters().tensors()) {
    gradients[name] = tensor.grad().defined() ? tensor.grad().clone() : at::zeros_like(tensor.detach());
    at::Tensor(tensor).mutable_grad().reset();
  }
  return gradients;
}

}  // namespace ingot::trainer
