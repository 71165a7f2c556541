#include "model/parameters.h"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>

#include "base/checksum.h"
#include "base/rng.h"

namespace ingot::model {
namespace {

std::string Text(at::IntArrayRef shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&out, i == 0 ? "" : ", ", shape[i]);
  return out + "]";
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Draw n of stream `seed`, by Box-Muller: a pure function of both.
double NormalAt(uint64_t seed, uint64_t n) {
  const double u = 1.0 - base::UniformAt(seed, 2 * (n / 2)), angle = base::UniformAt(seed, 2 * (n / 2) + 1) * 2 * M_PI;
  return std::sqrt(-2 * std::log(u)) * (n % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

at::Tensor NormalTensor(at::IntArrayRef shape, uint64_t seed, double deviation) {
  at::Tensor t = at::empty(shape, at::kFloat);
  float* values = t.mutable_data_ptr<float>();
  for (int64_t i = 0; i < t.numel(); ++i) values[i] = static_cast<float>(NormalAt(seed, i) * deviation);
  return t;
}

bool Exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

std::map<std::string, std::vector<int64_t>> Parameters::Shapes(const ModelConfig& c) {
  std::map<std::string, std::vector<int64_t>> shapes;
  const int64_t hidden = c.hidden_size, q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  shapes["model.embed_tokens.weight"] = {c.vocab_size, hidden};
  shapes["model.norm.weight"] = {hidden};
  if (!c.tie_word_embeddings) shapes["lm_head.weight"] = {c.vocab_size, hidden};
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, "."), attention = layer + "self_attn.";
    shapes[layer + "input_layernorm.weight"] = {hidden};
    shapes[layer + "post_attention_layernorm.weight"] = {hidden};
    shapes[layer + "mlp.gate_proj.weight"] = {c.intermediate_size, hidden};
    shapes[layer + "mlp.up_proj.weight"] = {c.intermediate_size, hidden};
    shapes[layer + "mlp.down_proj.weight"] = {hidden, c.intermediate_size};
    shapes[attention + "q_proj.weight"] = {q, hidden};
    shapes[attention + "k_proj.weight"] = {kv, hidden};
    shapes[attention + "v_proj.weight"] = {kv, hidden};
    shapes[attention + "o_proj.weight"] = {hidden, q};
    if (c.attention_bias) {
      shapes[attention + "q_proj.bias"] = {q};
      shapes[attention + "k_proj.bias"] = {kv};
      shapes[attention + "v_proj.bias"] = {kv};
    }
    if (c.attention_out_bias) shapes[attention + "o_proj.bias"] = {hidden};
    if (c.qk_norm) {
      shapes[attention + "q_norm.weight"] = {c.head_dim};
      shapes[attention + "k_norm.weight"] = {c.head_dim};
    }
  }
  return shapes;
}

Parameters Parameters::Init(const ModelConfig& config, uint64_t seed, at::ScalarType dtype) {
  constexpr double kDeviation = 0.02;
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  Parameters parameters;
  for (const auto& [name, shape] : Shapes(config)) {
    at::Tensor t;
    if (EndsWith(name, ".bias")) {
      t = at::zeros(shape, at::kFloat);
    } else if (shape.size() == 1) {
      t = at::ones(shape, at::kFloat);
    } else {
      const bool into_residual = EndsWith(name, "o_proj.weight") || EndsWith(name, "down_proj.weight");
      t = NormalTensor(shape, base::DeriveSeed(seed, base::Checksum64(name)), into_residual ? residual : kDeviation);
    }
    parameters.tensors_[name] = t.to(dtype);
  }
  return parameters;
}

absl::Status Parameters::CheckSameShapes(const ModelConfig& expected, const ModelConfig& found) {
  const auto mine = Shapes(expected), theirs = Shapes(found);
  for (const auto& [name, shape] : mine) {
    const auto it = theirs.find(name);
    if (it == theirs.end()) return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is missing"));
    if (it->second != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, " has shape ", Text(it->second), ", not ", Text(shape)));
    }
  }
  for (const auto& [name, shape] : theirs) {
    if (!mine.contains(name)) return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is not the model's"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Parameters> Parameters::FromTensors(const ModelConfig& config,
                                                   std::map<std::string, at::Tensor> tensors) {
  const auto shapes = Shapes(config);
  // Some checkpoints store the tied head a second time.
  if (auto head = tensors.find("lm_head.weight"); config.tie_word_embeddings && head != tensors.end()) {
    auto embedding = tensors.find("model.embed_tokens.weight");
    if (embedding != tensors.end() && !at::equal(head->second, embedding->second)) {
      return absl::InvalidArgumentError(
          "tensor 'lm_head.weight' differs from the embedding though tie_word_embeddings is true");
    }
    tensors.erase(head);
  }
  Parameters parameters;
  for (const auto& [name, shape] : shapes) {
    auto found = tensors.find(name);
    if (found == tensors.end() || !found->second.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' ", Text(shape), " is missing"));
    }
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has shape ", Text(found->second.sizes()),
                                                     ", the configuration asks for ", Text(shape)));
    }
    if (!at::isFloatingType(found->second.scalar_type())) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is not of a floating-point type"));
    }
    parameters.tensors_[name] = found->second;
    tensors.erase(found);
  }
  for (const auto& [name, tensor] : tensors) {
    if (EndsWith(name, "rotary_emb.inv_freq")) continue;  // a constant in old Llama checkpoints
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is unknown to this configuration"));
  }
  return parameters;
}

const at::Tensor& Parameters::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  TORCH_CHECK(found != tensors_.end(), "the model has no parameter '", name, "'");
  return found->second;
}

absl::StatusOr<ModelFolder> LoadModelDir(const std::string& dir) {
  ModelFolder model;
  INGOT_ASSIGN_OR_RETURN(model.config, ModelConfig::FromFile(dir + "/config.json"));
  std::string path = dir + "/model.safetensors";
  if (!Exists(path) && Exists(path + ".index.json")) path += ".index.json";
  INGOT_ASSIGN_OR_RETURN(auto tensors, LoadSafetensors(path));
  auto parameters = Parameters::FromTensors(model.config, std::move(tensors));
  if (!parameters.ok()) return base::Annotate(parameters.status(), path);
  model.parameters = *std::move(parameters);
  return model;
}

}  // namespace ingot::model
