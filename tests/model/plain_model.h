// The transformer in plain ATen with a dense mask: the independent reference of the model's tests. Also the attention
// backends that the tests use.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/torch/tree_attention.h"
#include "model/transformer.h"

namespace ingot::model::testing {

inline ModelConfig SmallConfig(const std::string& type, int64_t layers = 2) {
  ModelConfig c;
  c.model_type = type;
  c.vocab_size = 53;
  c.hidden_size = 24;
  c.intermediate_size = 40;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 8;
  c.max_position_embeddings = 512;
  c.rope_theta = 1000.0;
  c.qk_norm = type == "qwen3";
  c.attention_bias = type == "qwen2";
  c.tie_word_embeddings = type == "qwen2";
  return c;
}

// Initial parameters with every tensor random, biases and norms too, so that a missing one is visible.
inline Parameters RandomParameters(const ModelConfig& config, uint64_t seed, at::ScalarType dtype) {
  Parameters p = Parameters::Init(config, seed, at::kDouble);
  uint64_t n = 0;
  for (auto& [name, t] : p.tensors()) {
    double* values = t.mutable_data_ptr<double>();
    const double spread = t.dim() == 1 ? 0.3 : 0.2;
    for (int64_t i = 0; i < t.numel(); ++i) values[i] += spread * (2 * base::UniformAt(seed, n++) - 1);
    t = t.to(dtype);
  }
  return p;
}

inline at::Tensor RandomIds(const ModelConfig& config, int64_t rows, uint64_t seed) {
  at::Tensor ids = at::empty({rows}, at::kLong);
  int64_t* at = ids.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i) at[i] = static_cast<int64_t>(base::DeriveSeed(seed, i) % config.vocab_size);
  return ids;
}

// One packed stream through the tree-attention operator.
class PackedAttention : public AttentionBackend {
 public:
  explicit PackedAttention(at::Tensor visible_end = {}) : visible_end_(std::move(visible_end)) {}
  at::Tensor Attend(int64_t, const AttentionInput& input) override {
    const at::Tensor &q = input.q, &k = input.k, &v = input.v;
    return kernels::TreeAttention(q, k, v, visible_end_, 1 / std::sqrt(static_cast<double>(q.size(2))));
  }

 private:
  at::Tensor visible_end_;
};

// Logits of one packed stream; visible [N, N] is true where query i sees key j.
inline at::Tensor PlainLogits(const ModelConfig& c, const Parameters& p, const at::Tensor& ids,
                              const at::Tensor& positions, const at::Tensor& visible) {
  const auto norm = [&](const at::Tensor& x, const at::Tensor& w) {
    return x / at::sqrt(x.pow(2).mean(-1, true) + c.rms_norm_eps) * w;
  };
  const at::Tensor embedding = p.at("model.embed_tokens.weight");
  const auto options = embedding.options().requires_grad(false);
  // The fp32 angles are the definition (transformer.cc). The goldens check that they equal Hugging Face's.
  at::Tensor cos = at::empty({ids.size(0), 1, c.head_dim / 2}, at::kFloat), sin = at::empty_like(cos);
  for (int64_t i = 0; i < cos.numel(); ++i) {
    const float exponent = static_cast<float>(i % (c.head_dim / 2) * 2) / static_cast<float>(c.head_dim);
    const float frequency = 1.0f / std::pow(static_cast<float>(c.rope_theta), exponent);
    const float angle = static_cast<float>(positions.const_data_ptr<int64_t>()[i / (c.head_dim / 2)]) * frequency;
    cos.mutable_data_ptr<float>()[i] = std::cos(angle);
    sin.mutable_data_ptr<float>()[i] = std::sin(angle);
  }
  cos = cos.to(options);
  sin = sin.to(options);
  const auto rope = [&](const at::Tensor& x) {
    const auto h = x.chunk(2, -1);
    return at::cat({h[0] * cos - h[1] * sin, h[1] * cos + h[0] * sin}, -1);
  };
  const auto bias = [&](const std::string& name) {
    const auto found = p.tensors().find(name);
    return found == p.tensors().end() ? at::Tensor() : found->second;
  };
  const int64_t n = ids.size(0), heads = c.num_attention_heads, kv = c.num_key_value_heads, d = c.head_dim;
  at::Tensor x = embedding.index_select(0, ids);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string l = "model.layers." + std::to_string(i) + ".", a = l + "self_attn.";
    at::Tensor h = norm(x, p.at(l + "input_layernorm.weight"));
    at::Tensor q = at::linear(h, p.at(a + "q_proj.weight"), bias(a + "q_proj.bias")).view({n, heads, d});
    at::Tensor k = at::linear(h, p.at(a + "k_proj.weight"), bias(a + "k_proj.bias")).view({n, kv, d});
    at::Tensor v = at::linear(h, p.at(a + "v_proj.weight"), bias(a + "v_proj.bias")).view({n, kv, d});
    if (c.qk_norm) {
      q = norm(q, p.at(a + "q_norm.weight"));
      k = norm(k, p.at(a + "k_norm.weight"));
    }
    q = rope(q);
    k = rope(k).repeat_interleave(heads / kv, 1);
    v = v.repeat_interleave(heads / kv, 1);
    at::Tensor s = at::einsum("ihd,jhd->hij", {q, k}) / std::sqrt(static_cast<double>(d));
    s = s.masked_fill(visible.logical_not().unsqueeze(0), -INFINITY);
    const at::Tensor attended = at::einsum("hij,jhd->ihd", {s.softmax(-1), v}).reshape({n, heads * d});
    x = x + at::linear(attended, p.at(a + "o_proj.weight"), bias(a + "o_proj.bias"));
    h = norm(x, p.at(l + "post_attention_layernorm.weight"));
    const at::Tensor gate = at::linear(h, p.at(l + "mlp.gate_proj.weight")),
                     up = at::linear(h, p.at(l + "mlp.up_proj.weight"));
    x = x + at::linear(gate * at::sigmoid(gate) * up, p.at(l + "mlp.down_proj.weight"));
  }
  return at::linear(norm(x, p.at("model.norm.weight")), c.tie_word_embeddings ? embedding : p.at("lm_head.weight"));
}

inline double RelativeError(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-12)).item<double>();
}

}  // namespace ingot::model::testing
