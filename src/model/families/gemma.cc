// Gemma 2 (arXiv 2408.00118) and the text models of Gemma 3 (arXiv 2503.19786): windowed layers between full-context
// layers, four norms per layer, norms that multiply by 1 + weight, and a scaled embedding. Gemma 2 caps scores and
// logits. Gemma 3 instead norms q and k, has separate RoPE for its windowed layers, and caps only if the model folder
// requests it.
#include <cmath>
#include <string_view>

#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

LayerSpec Layer(const ModelConfig& config, int64_t index) {
  const std::string prefix = LayerPrefix(index);
  LayerSpec layer;
  layer.gemma = layer.centred = true;
  const auto norm = [&](Part part, const char* name) {
    layer.tensors.push_back({part, prefix + name, {config.hidden_size}, Init::kZeros});
  };
  norm(Part::kInputNorm, "input_layernorm.weight");
  AddAttention(config, index, &layer);
  norm(Part::kAttentionNorm, "post_attention_layernorm.weight");
  norm(Part::kPostNorm, "pre_feedforward_layernorm.weight");
  AddGatedFeedForward(config, prefix, config.intermediate_size, &layer);
  norm(Part::kFeedForwardNorm, "post_feedforward_layernorm.weight");
  return layer;
}

// `absent` is the value if the file does not have the key; null = none.
absl::Status ReadCap(const base::json::value& json, std::string_view key, double absent, double* cap) {
  const base::json::value* const found = base::Find(json, key);
  *cap = found == nullptr ? absent : 0;
  if (IsNull(found)) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(ReadDouble(json, key, cap));
  return *cap > 0 ? absl::OkStatus() : BadKey(key, "must be above 0, or null");
}

absl::Status ReadKeys(const base::json::value& json, double attention_cap, double logit_cap, ModelConfig* config) {
  config->gemma = true;
  double scalar = 256;
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "query_pre_attn_scalar", &scalar));
  if (!(scalar > 0)) return BadKey("query_pre_attn_scalar", "must be above 0");
  config->query_scale = std::pow(scalar, -0.5);
  INGOT_RETURN_IF_ERROR(ReadCap(json, "attn_logit_softcapping", attention_cap, &config->attention_soft_cap));
  INGOT_RETURN_IF_ERROR(ReadCap(json, "final_logit_softcapping", logit_cap, &config->logit_soft_cap));
  bool both_ways = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "use_bidirectional_attention", &both_ways));
  if (scalar != std::round(scalar)) return BadKey("query_pre_attn_scalar", "must be a whole number");
  return both_ways ? BadKey("use_bidirectional_attention", "is true, which is not supported") : absl::OkStatus();
}

absl::Status ReadGemma2(const base::json::value& json, ModelConfig* config) { return ReadKeys(json, 50, 30, config); }
absl::Status ReadGemma3(const base::json::value& json, ModelConfig* config) { return ReadKeys(json, 0, 0, config); }

void Write(const ModelConfig& config, base::json::object* json) {
  // `transformers` accepts only an integer.
  (*json)["query_pre_attn_scalar"] = std::llround(1 / (config.query_scale * config.query_scale));
  const auto cap = [](double value) { return value > 0 ? base::json::value(value) : base::json::value(nullptr); };
  (*json)["attn_logit_softcapping"] = cap(config.attention_soft_cap);
  (*json)["final_logit_softcapping"] = cap(config.logit_soft_cap);
}

}  // namespace

extern const Family kGemma2, kGemma3;
const Family kGemma2 = {.model_type = "gemma2",
                        .architecture = "Gemma2ForCausalLM",
                        .default_head_dim = 256,
                        .reads_attention_bias = true,
                        .tied_by_default = true,
                        .window = Window::kPattern,
                        .full_layer_every = 2,
                        .activation_key = "hidden_activation",
                        .activation = "gelu_pytorch_tanh",
                        .layer = Layer,
                        .read = ReadGemma2,
                        .write = Write};
const Family kGemma3 = {.model_type = "gemma3_text",
                        .architecture = "Gemma3ForCausalLM",
                        .default_head_dim = 256,
                        .reads_attention_bias = true,
                        .qk_norm = true,
                        .tied_by_default = true,
                        .default_rope_theta = 1e6,
                        .default_local_rope_theta = 1e4,
                        .window = Window::kPattern,
                        .full_layer_every = 6,
                        .activation_key = "hidden_activation",
                        .activation = "gelu_pytorch_tanh",
                        .layer = Layer,
                        .read = ReadGemma3,
                        .write = Write};

}  // namespace ingot::model
