// Qwen3-Next: Gated DeltaNet (arXiv 2412.06464) in three of four layers, attention with a gated result in the fourth,
// norms that multiply by 1 + weight, partial RoPE, and experts plus a shared expert with a sigmoid gate.
#include <algorithm>
#include <string_view>

#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

constexpr std::string_view kLinear = "linear_attention", kFull = "full_attention";

const ExpertNames kNames = {.router = "mlp.gate.weight",
                            .correction_bias = "",
                            .gate = "mlp.experts.%.gate_proj",
                            .up = "mlp.experts.%.up_proj",
                            .down = "mlp.experts.%.down_proj",
                            .shared_gate = "mlp.shared_expert.gate_proj.weight",
                            .shared_up = "mlp.shared_expert.up_proj.weight",
                            .shared_down = "mlp.shared_expert.down_proj.weight",
                            .shared_share = "mlp.shared_expert_gate.weight"};

const MtpNames kMtp = {.count = "mtp_num_hidden_layers",
                       .tensors = "mtp.",
                       .layer = "mtp.layers.%.",
                       .embedding_norm = "mtp.pre_fc_norm_embedding.weight",
                       .state_norm = "mtp.pre_fc_norm_hidden.weight",
                       .projection = "mtp.fc.weight",
                       .norm = "mtp.norm.weight"};

void AddRecurrence(const ModelConfig& config, const std::string& prefix, LayerSpec* layer) {
  const RecurrentConfig& r = config.recurrent;
  kernels::DeltaShape& shape = layer->recurrence.shape;
  shape = {r.key_heads, r.value_heads, r.key_dim, r.value_dim, r.kernel};
  const int64_t hidden = config.hidden_size;
  const auto add = [&](Part part, const char* name, std::vector<int64_t> extents, Init init) {
    layer->tensors.push_back({part, prefix + "linear_attn." + name, std::move(extents), init});
  };
  add(Part::kRecurrentIn, "in_proj_qkvz.weight", {2 * shape.keys() + 2 * shape.values(), hidden}, Init::kNormal);
  add(Part::kRecurrentRates, "in_proj_ba.weight", {2 * shape.value_heads, hidden}, Init::kNormal);
  add(Part::kConvolution, "conv1d.weight", {shape.channels(), 1, shape.kernel}, Init::kNormal);
  add(Part::kStepBias, "dt_bias", {shape.value_heads}, Init::kOnes);
  add(Part::kDecay, "A_log", {shape.value_heads}, Init::kDecay);
  add(Part::kRecurrentNorm, "norm.weight", {shape.value_dim}, Init::kOnes);
  add(Part::kRecurrentOut, "out_proj.weight", {hidden, shape.values()}, Init::kResidual);
}

LayerSpec RecurrentLayer(const ModelConfig& config, int64_t index) {
  const std::string prefix = LayerPrefix(index);
  LayerSpec layer;
  layer.centred = true;
  layer.tensors.push_back({Part::kInputNorm, prefix + "input_layernorm.weight", {config.hidden_size}, Init::kZeros});
  AddRecurrence(config, prefix, &layer);
  layer.tensors.push_back(
      {Part::kPostNorm, prefix + "post_attention_layernorm.weight", {config.hidden_size}, Init::kZeros});
  return layer;
}

LayerSpec Layer(const ModelConfig& config, int64_t index) {
  LayerSpec layer = config.is_recurrent(index) ? RecurrentLayer(config, index) : AttentionLayer(config, index);
  if (config.has_experts(index)) {
    AddExperts(config, LayerPrefix(index), kNames, &layer);
  } else {
    AddGatedFeedForward(config, LayerPrefix(index), config.intermediate_size, &layer);
  }
  return layer;
}

// If the file does not list the layers, every full_attention_interval-th layer has attention.
absl::Status ReadLayers(const base::json::value& json, ModelConfig* config) {
  if (config->num_hidden_layers < 1 || config->num_hidden_layers > 1 << 12)
    return absl::OkStatus();  // Validate rejects it
  const auto layers = static_cast<size_t>(config->num_hidden_layers);
  int64_t every = 4;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "full_attention_interval", false, &every));
  if (every < 1) return BadKey("full_attention_interval", "must be above 0");
  config->recurrent.layers.assign(layers, false);
  for (size_t i = 0; i < layers; ++i) config->recurrent.layers[i] = (static_cast<int64_t>(i) + 1) % every != 0;
  const base::json::value* kinds = base::Find(json, "layer_types");
  if (IsNull(kinds)) return absl::OkStatus();
  if (!kinds->is_array() || kinds->get_array().size() != layers) {
    return BadKey("layer_types", absl::StrCat("must name ", layers, " layers"));
  }
  for (size_t i = 0; i < layers; ++i) {
    const base::json::value& kind = kinds->get_array()[i];
    const std::string_view name = kind.is_string() ? std::string_view(kind.get_string()) : "?";
    if (name != kLinear && name != kFull) {
      return BadKey("layer_types", absl::StrCat("has a layer of kind '", base::View(name),
                                                "'; supported: full_attention, linear_attention"));
    }
    config->recurrent.layers[i] = name == kLinear;
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const base::json::value& json, ExpertsConfig* e) {
  *e = {.count = 512, .per_token = 10, .width = 512, .shared_width = 512, .shared_gate = true, .normalize = true};
  e->balance_coefficient = 0.001;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_local_experts", false, &e->count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts", false, &e->count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts_per_tok", false, &e->per_token));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "moe_intermediate_size", false, &e->width));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "shared_expert_intermediate_size", false, &e->shared_width));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "norm_topk_prob", &e->normalize));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "router_aux_loss_coef", &e->balance_coefficient));
  return ReadPlainLayers(json, e);
}

absl::Status Read(const base::json::value& json, ModelConfig* config) {
  config->attention_gate = config->centred_norms = true;
  RecurrentConfig& r = config->recurrent;
  r = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .kernel = 4, .layers = {}};
  INGOT_RETURN_IF_ERROR(ReadInt(json, "linear_num_key_heads", false, &r.key_heads));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "linear_num_value_heads", false, &r.value_heads));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "linear_key_head_dim", false, &r.key_dim));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "linear_value_head_dim", false, &r.value_dim));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "linear_conv_kernel_dim", false, &r.kernel));
  INGOT_RETURN_IF_ERROR(ReadLayers(json, config));
  bool window = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "use_sliding_window", &window));
  if (window) return BadKey("use_sliding_window", "is true, which is not supported by this model_type");
  return ReadExperts(json, &config->experts);
}

void Write(const ModelConfig& config, base::json::object* json) {
  const ExpertsConfig& e = config.experts;
  const RecurrentConfig& r = config.recurrent;
  base::json::object& o = *json;
  o["linear_num_key_heads"] = r.key_heads;
  o["linear_num_value_heads"] = r.value_heads;
  o["linear_key_head_dim"] = r.key_dim;
  o["linear_value_head_dim"] = r.value_dim;
  o["linear_conv_kernel_dim"] = r.kernel;
  base::json::array kinds;
  for (const bool recurrent : r.layers) kinds.emplace_back(std::string(recurrent ? kLinear : kFull).c_str());
  o["layer_types"] = std::move(kinds);
  o["num_experts"] = e.count;
  o["num_experts_per_tok"] = e.per_token;
  o["moe_intermediate_size"] = e.width;
  o["shared_expert_intermediate_size"] = e.shared_width;
  o["norm_topk_prob"] = e.normalize;
  o["router_aux_loss_coef"] = e.balance_coefficient;
  WritePlainLayers(e, json);
}

absl::Status Check(const ModelConfig& config) {
  const RecurrentConfig& r = config.recurrent;
  const struct {
    const char* key;
    int64_t value, most;
  } ranges[] = {{"linear_num_key_heads", r.key_heads, 1 << 12},
                {"linear_num_value_heads", r.value_heads, 1 << 12},
                {"linear_key_head_dim", r.key_dim, 1 << 12},
                {"linear_value_head_dim", r.value_dim, 1 << 12},
                {"linear_conv_kernel_dim", r.kernel, 64},
                {"num_experts", config.experts.count, 1 << 14},
                {"shared_expert_intermediate_size", config.experts.shared_width, 1 << 22}};
  for (const auto& [key, value, most] : ranges) {
    if (value < 1 || value > most) return BadKey(key, absl::StrCat("is ", value, ", outside 1..", most));
  }
  if (r.value_heads % r.key_heads != 0) {
    return BadKey("linear_num_value_heads", "is not a multiple of linear_num_key_heads");
  }
  if (static_cast<int64_t>(r.layers.size()) != config.num_hidden_layers) {
    return BadKey("layer_types", "does not fit the layers");
  }
  if (std::find(r.layers.begin(), r.layers.end(), false) == r.layers.end()) {
    return BadKey("layer_types", "has no full_attention layer, which is not supported");
  }
  if (!config.attention_gate || !config.centred_norms || !config.experts.shared_gate) {
    return BadKey("model_type", "qwen3_next needs attention_gate, centred_norms and experts.shared_gate");
  }
  return absl::OkStatus();
}

}  // namespace

extern const Family kQwen3Next;
const Family kQwen3Next = {.model_type = "qwen3_next",
                           .architecture = "Qwen3NextForCausalLM",
                           .default_head_dim = 256,
                           .reads_attention_bias = true,
                           .qk_norm = true,
                           .names_plain_layers = true,
                           .partial_rotary = true,
                           .rotary_share = 0.25,
                           .mtp = &kMtp,
                           .lists_layers = true,
                           .layer = Layer,
                           .read = Read,
                           .write = Write,
                           .check = Check};

}  // namespace ingot::model
