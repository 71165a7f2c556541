#include "model/families/rows.h"

#include <cmath>
#include <set>
#include <utility>

#include "model/config_json.h"

namespace ingot::model {

const MtpNames kNextLayers = {.count = "num_nextn_predict_layers",
                              .tensors = "model.layers.#.",
                              .layer = "model.layers.#.",
                              .embedding_norm = "model.layers.#.enorm.weight",
                              .state_norm = "model.layers.#.hnorm.weight",
                              .projection = "model.layers.#.eh_proj.weight",
                              .norm = "model.layers.#.shared_head.norm.weight",
                              .embedding_copy = "model.layers.#.embed_tokens.weight",
                              .head_copy = "model.layers.#.shared_head.head.weight"};

std::string LayerPrefix(int64_t index) { return absl::StrCat("model.layers.", index, "."); }

void AddAttention(const ModelConfig& config, int64_t index, LayerSpec* layer) {
  const std::string prefix = LayerPrefix(index);
  AttentionSpec& a = layer->attention;
  a.heads = config.num_attention_heads;
  a.kv_heads = config.num_key_value_heads;
  a.head_dim = config.head_dim;
  a.scale = config.query_scale > 0 ? config.query_scale : 1.0 / std::sqrt(static_cast<double>(a.head_dim));
  a.window = config.has_window(index) ? config.sliding_window : 0;
  a.local_rope = config.local_rope_theta > 0 && !config.windowed.empty() && config.windowed[static_cast<size_t>(index)];
  a.sinks = config.sinks;
  a.soft_cap = config.attention_soft_cap;
  a.norm = config.qk_norm;
  a.norm_whole = config.qk_norm_whole;
  a.gated = config.attention_gate;
  a.rotary_dim = config.rotary_dim > 0 ? config.rotary_dim : config.head_dim;
  const int64_t hidden = config.hidden_size, made = a.queries() * (a.gated ? 2 : 1);
  const auto add = [&](Part part, const char* name, std::vector<int64_t> shape, Init init, Shard shard) {
    layer->tensors.push_back({part, prefix + "self_attn." + name, std::move(shape), init, shard});
  };
  add(Part::kQuery, "q_proj.weight", {made, hidden}, Init::kNormal, Shard::kRows);
  add(Part::kKey, "k_proj.weight", {a.keys(), hidden}, Init::kNormal, Shard::kRows);
  add(Part::kValue, "v_proj.weight", {a.keys(), hidden}, Init::kNormal, Shard::kRows);
  add(Part::kOutput, "o_proj.weight", {hidden, a.queries()}, Init::kResidual, Shard::kColumns);
  if (config.attention_bias) {
    add(Part::kQueryBias, "q_proj.bias", {made}, Init::kZeros, Shard::kRows);
    add(Part::kKeyBias, "k_proj.bias", {a.keys()}, Init::kZeros, Shard::kRows);
    add(Part::kValueBias, "v_proj.bias", {a.keys()}, Init::kZeros, Shard::kRows);
  }
  if (config.attention_out_bias) add(Part::kOutputBias, "o_proj.bias", {hidden}, Init::kZeros, Shard::kNone);
  if (config.qk_norm) {
    const Init init = config.centred() ? Init::kZeros : Init::kOnes;
    const Shard shard = a.norm_whole ? Shard::kRows : Shard::kNone;
    add(Part::kQueryNorm, "q_norm.weight", {a.norm_whole ? a.queries() : a.head_dim}, init, shard);
    add(Part::kKeyNorm, "k_norm.weight", {a.norm_whole ? a.keys() : a.head_dim}, init, shard);
  }
  if (config.sinks) add(Part::kSinks, "sinks", {a.heads}, Init::kZeros, Shard::kRows);
}

void AddGatedFeedForward(const ModelConfig& config, const std::string& prefix, int64_t width, LayerSpec* layer) {
  const int64_t hidden = config.hidden_size;
  layer->feed_forward.width = width;
  layer->feed_forward.activation = config.hidden_act;
  layer->tensors.push_back(
      {Part::kGate, prefix + "mlp.gate_proj.weight", {width, hidden}, Init::kNormal, Shard::kRows});
  layer->tensors.push_back({Part::kUp, prefix + "mlp.up_proj.weight", {width, hidden}, Init::kNormal, Shard::kRows});
  layer->tensors.push_back(
      {Part::kDown, prefix + "mlp.down_proj.weight", {hidden, width}, Init::kResidual, Shard::kColumns});
  if (!config.mlp_bias) return;
  layer->tensors.push_back({Part::kGateBias, prefix + "mlp.gate_proj.bias", {width}, Init::kZeros, Shard::kRows});
  layer->tensors.push_back({Part::kUpBias, prefix + "mlp.up_proj.bias", {width}, Init::kZeros, Shard::kRows});
  layer->tensors.push_back({Part::kDownBias, prefix + "mlp.down_proj.bias", {hidden}, Init::kZeros, Shard::kNone});
}

LayerSpec AttentionLayer(const ModelConfig& config, int64_t index) {
  const std::string prefix = LayerPrefix(index);
  const Init norm = config.centred() ? Init::kZeros : Init::kOnes;
  LayerSpec layer;
  layer.centred = config.centred();
  layer.tensors.push_back({Part::kInputNorm, prefix + "input_layernorm.weight", {config.hidden_size}, norm});
  AddAttention(config, index, &layer);
  layer.tensors.push_back({Part::kPostNorm, prefix + "post_attention_layernorm.weight", {config.hidden_size}, norm});
  return layer;
}

LayerSpec DenseLayer(const ModelConfig& config, int64_t index) {
  LayerSpec layer = AttentionLayer(config, index);
  AddGatedFeedForward(config, LayerPrefix(index), config.intermediate_size, &layer);
  return layer;
}

const ExpertNames kMlpExperts = {.router = "mlp.gate.weight",
                                 .correction_bias = "mlp.gate.e_score_correction_bias",
                                 .gate = "mlp.experts.%.gate_proj",
                                 .up = "mlp.experts.%.up_proj",
                                 .down = "mlp.experts.%.down_proj",
                                 .shared_gate = "mlp.shared_experts.gate_proj.weight",
                                 .shared_up = "mlp.shared_experts.up_proj.weight",
                                 .shared_down = "mlp.shared_experts.down_proj.weight"};

void AddExperts(const ModelConfig& config, const std::string& prefix, const ExpertNames& names, LayerSpec* layer) {
  const ExpertsConfig& e = config.experts;
  const int64_t hidden = config.hidden_size;
  FeedForwardSpec& spec = layer->feed_forward;
  spec.experts = e;
  spec.activation = config.hidden_act;
  const auto add = [&](Part part, std::string name, std::vector<int64_t> shape, Init init, Shard shard,
                       int64_t expert = -1) {
    if (const size_t at = name.find('%'); at != std::string::npos) name.replace(at, 1, absl::StrCat(expert));
    layer->tensors.push_back({part, prefix + name, std::move(shape), init, shard, expert});
  };
  add(Part::kRouter, names.router, {e.count, hidden}, Init::kNormal, Shard::kNone);
  if (e.router_bias) {
    add(Part::kRouterBias, std::string(names.router, 0, std::string(names.router).size() - 6) + "bias", {e.count},
        Init::kZeros, Shard::kNone);
  }
  if (e.correction_bias) add(Part::kCorrectionBias, names.correction_bias, {e.count}, Init::kZeros, Shard::kNone);
  for (int64_t i = 0; i < e.count; ++i) {
    add(Part::kExpertGate, absl::StrCat(names.gate, ".weight"), {e.width, hidden}, Init::kNormal, Shard::kRows, i);
    add(Part::kExpertUp, absl::StrCat(names.up, ".weight"), {e.width, hidden}, Init::kNormal, Shard::kRows, i);
    add(Part::kExpertDown, absl::StrCat(names.down, ".weight"), {hidden, e.width}, Init::kResidual, Shard::kColumns, i);
    if (!e.bias) continue;
    add(Part::kExpertGateBias, absl::StrCat(names.gate, ".bias"), {e.width}, Init::kZeros, Shard::kRows, i);
    add(Part::kExpertUpBias, absl::StrCat(names.up, ".bias"), {e.width}, Init::kZeros, Shard::kRows, i);
    add(Part::kExpertDownBias, absl::StrCat(names.down, ".bias"), {hidden}, Init::kZeros, Shard::kNone, i);
  }
  if (e.shared_width == 0) return;
  add(Part::kSharedGate, names.shared_gate, {e.shared_width, hidden}, Init::kNormal, Shard::kRows);
  add(Part::kSharedUp, names.shared_up, {e.shared_width, hidden}, Init::kNormal, Shard::kRows);
  add(Part::kSharedDown, names.shared_down, {hidden, e.shared_width}, Init::kResidual, Shard::kColumns);
  if (e.shared_gate) add(Part::kSharedShare, names.shared_share, {1, hidden}, Init::kNormal, Shard::kNone);
}

LayerSpec ExpertLayer(const ModelConfig& config, int64_t index, const ExpertNames& names) {
  LayerSpec layer = AttentionLayer(config, index);
  AddExperts(config, LayerPrefix(index), names, &layer);
  return layer;
}

LayerSpec ExpertLayer(const ModelConfig& config, int64_t index) {
  return config.has_experts(index) ? ExpertLayer(config, index, kMlpExperts) : DenseLayer(config, index);
}

void WriteGroupedExperts(const ExpertsConfig& experts, base::json::object* json) {
  const ExpertsConfig& e = experts;
  base::json::object& o = *json;
  o["n_routed_experts"] = e.count;
  o["num_experts_per_tok"] = e.per_token;
  o["moe_intermediate_size"] = e.width;
  o["n_shared_experts"] = e.width > 0 ? e.shared_width / e.width : 0;
  o["first_k_dense_replace"] = e.dense_layers;
  o["n_group"] = e.groups;
  o["topk_group"] = e.groups_per_token;
  o["routed_scaling_factor"] = e.scale;
  o["norm_topk_prob"] = e.normalize;
}

absl::Status ReadPlainLayers(const base::json::value& json, ExpertsConfig* experts) {
  INGOT_RETURN_IF_ERROR(ReadInt(json, "decoder_sparse_step", false, &experts->layer_step));
  const base::json::value* layers = base::Find(json, "mlp_only_layers");
  if (IsNull(layers)) return absl::OkStatus();
  if (!layers->is_array()) return BadKey("mlp_only_layers", "must be a list of layer numbers");
  std::set<int64_t> sorted;
  for (const base::json::value& layer : layers->get_array()) {
    const auto number = AsInt(layer);
    if (!number.has_value()) return BadKey("mlp_only_layers", "must be a list of layer numbers");
    sorted.insert(*number);
  }
  experts->plain_layers.assign(sorted.begin(), sorted.end());
  return absl::OkStatus();
}

void WritePlainLayers(const ExpertsConfig& experts, base::json::object* json) {
  (*json)["decoder_sparse_step"] = experts.layer_step;
  base::json::array layers;
  for (const int64_t layer : experts.plain_layers) layers.emplace_back(layer);
  (*json)["mlp_only_layers"] = std::move(layers);
}

absl::Status ReadGroupedExperts(const base::json::value& json, ExpertsConfig* experts) {
  int64_t shared = 1;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_local_experts", false, &experts->count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "n_routed_experts", false, &experts->count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts_per_tok", false, &experts->per_token));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "moe_intermediate_size", false, &experts->width));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "n_shared_experts", false, &shared));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "first_k_dense_replace", false, &experts->dense_layers));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "n_group", false, &experts->groups));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "topk_group", false, &experts->groups_per_token));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "routed_scaling_factor", &experts->scale));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "norm_topk_prob", &experts->normalize));
  if (shared < 1 || shared > 1 << 10) return BadKey("n_shared_experts", "must lie in 1..1024");
  experts->shared_width = shared * experts->width;
  return absl::OkStatus();
}

}  // namespace ingot::model
