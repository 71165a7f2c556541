// DeepSeek-V3 and Kimi-K2 (arXiv 2412.19437, 2507.20534): multi-head latent attention, sigmoid routing with a selection
// bias, groups of experts, shared experts, dense first layers.
//
// Attention runs over latents: the halves of kv_b_proj are applied to queries and to the attention results
// (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). So rollout's cache stores kv_lora_rank + qk_rope_head_dim numbers per
// token and layer, once. The trainer computes the same, so that both have the same bits. Per pair of rows, this costs
// more than full keys.
#include <cmath>

#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

void AddLatentAttention(const ModelConfig& config, const std::string& prefix, LayerSpec* layer) {
  const LatentConfig& latent = config.latent;
  const int64_t hidden = config.hidden_size, heads = config.num_attention_heads;
  const int64_t queries = heads * (latent.plain_dim + latent.rotary_dim);
  AttentionSpec& a = layer->attention;
  a.heads = heads;
  a.kv_heads = 1;
  a.head_dim = latent.kv_rank + latent.rotary_dim;
  a.scale = config.query_scale;
  a.rotary_dim = latent.rotary_dim;
  a.latent = latent;
  const auto add = [&](Part part, const char* name, std::vector<int64_t> shape, Init init, Shard shard) {
    layer->tensors.push_back({part, prefix + "self_attn." + name, std::move(shape), init, shard});
  };
  if (latent.query_rank > 0) {
    add(Part::kQueryDown, "q_a_proj.weight", {latent.query_rank, hidden}, Init::kNormal, Shard::kNone);
    add(Part::kQueryDownNorm, "q_a_layernorm.weight", {latent.query_rank}, Init::kOnes, Shard::kNone);
    add(Part::kQuery, "q_b_proj.weight", {queries, latent.query_rank}, Init::kNormal, Shard::kRows);
  } else {
    add(Part::kQuery, "q_proj.weight", {queries, hidden}, Init::kNormal, Shard::kRows);
  }
  add(Part::kLatentDown, "kv_a_proj_with_mqa.weight", {latent.kv_rank + latent.rotary_dim, hidden}, Init::kNormal,
      Shard::kNone);
  add(Part::kLatentNorm, "kv_a_layernorm.weight", {latent.kv_rank}, Init::kOnes, Shard::kNone);
  add(Part::kKey, "kv_b_proj.weight", {heads * (latent.plain_dim + latent.value_dim), latent.kv_rank}, Init::kNormal,
      Shard::kRows);
  add(Part::kOutput, "o_proj.weight", {hidden, heads * latent.value_dim}, Init::kResidual, Shard::kColumns);
}

LayerSpec Layer(const ModelConfig& config, int64_t index) {
  const std::string prefix = LayerPrefix(index);
  LayerSpec layer;
  layer.tensors.push_back({Part::kInputNorm, prefix + "input_layernorm.weight", {config.hidden_size}, Init::kOnes});
  AddLatentAttention(config, prefix, &layer);
  layer.tensors.push_back(
      {Part::kPostNorm, prefix + "post_attention_layernorm.weight", {config.hidden_size}, Init::kOnes});
  if (config.has_experts(index)) {
    AddExperts(config, prefix, kMlpExperts, &layer);
  } else {
    AddGatedFeedForward(config, prefix, config.intermediate_size, &layer);
  }
  return layer;
}

absl::Status ReadLatent(const base::json::value& json, LatentConfig* latent) {
  *latent = {.kv_rank = 512, .query_rank = 0, .plain_dim = 128, .rotary_dim = 64, .value_dim = 128};
  INGOT_RETURN_IF_ERROR(ReadInt(json, "kv_lora_rank", false, &latent->kv_rank));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "q_lora_rank", false, &latent->query_rank));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "qk_nope_head_dim", false, &latent->plain_dim));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "qk_rope_head_dim", false, &latent->rotary_dim));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "v_head_dim", false, &latent->value_dim));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "rope_interleave", &latent->interleaved));
  for (const auto& [key, value] : {std::pair("kv_lora_rank", latent->kv_rank),
                                   {"qk_nope_head_dim", latent->plain_dim},
                                   {"qk_rope_head_dim", latent->rotary_dim},
                                   {"v_head_dim", latent->value_dim}}) {
    if (value < 1 || value > 1 << 16) return BadKey(key, absl::StrCat("is ", value, ", outside 1..65536"));
  }
  if (latent->query_rank < 0 || latent->query_rank > 1 << 16) {
    return BadKey("q_lora_rank", absl::StrCat("is ", latent->query_rank, ", outside 0..65536"));
  }
  return absl::OkStatus();
}

absl::Status Read(const base::json::value& json, ModelConfig* config) {
  INGOT_RETURN_IF_ERROR(ReadLatent(json, &config->latent));
  config->head_dim = config->latent.rotary_dim;
  ExpertsConfig& e = config->experts;
  e.count = 256;
  e.per_token = 8;
  e.width = 2048;
  e.scoring = "sigmoid";
  e.normalize = e.correction_bias = true;
  e.dense_layers = 3;
  e.groups = 8;
  e.groups_per_token = 4;
  e.scale = 2.5;
  INGOT_RETURN_IF_ERROR(ReadGroupedExperts(json, &e));
  INGOT_RETURN_IF_ERROR(RejectOther(json, "scoring_func", "sigmoid"));
  INGOT_RETURN_IF_ERROR(RejectOther(json, "topk_method", "noaux_tc"));
  INGOT_RETURN_IF_ERROR(RejectNumber(json, "moe_layer_freq", 1));
  bool bias = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "attention_bias", &bias));
  if (bias) return BadKey("attention_bias", "is true, which is not supported");
  config->query_scale = 1 / std::sqrt(static_cast<double>(config->latent.plain_dim + config->latent.rotary_dim));
  const RopeScaling& scaling = config->rope_scaling;
  if (scaling.type == "yarn" && scaling.mscale_all_dim != 0 && scaling.factor > 1) {
    const double sharper = 0.1 * scaling.mscale_all_dim * std::log(scaling.factor) + 1;
    config->query_scale *= sharper * sharper;
  }
  return absl::OkStatus();
}

void Write(const ModelConfig& config, base::json::object* json) {
  const LatentConfig& latent = config.latent;
  base::json::object& o = *json;
  o["kv_lora_rank"] = latent.kv_rank;
  if (latent.query_rank > 0) {
    o["q_lora_rank"] = latent.query_rank;
  } else {
    o["q_lora_rank"] = nullptr;
  }
  o["qk_nope_head_dim"] = latent.plain_dim;
  o["qk_rope_head_dim"] = latent.rotary_dim;
  o["v_head_dim"] = latent.value_dim;
  o["rope_interleave"] = latent.interleaved;
  WriteGroupedExperts(config.experts, json);
}

absl::Status Check(const ModelConfig& config) {
  return config.latent.kv_rank > 0 ? absl::OkStatus() : BadKey("kv_lora_rank", "is missing");
}

constexpr Family FamilyOf(const char* model_type) {
  return {.model_type = model_type,
          .architecture = "DeepseekV3ForCausalLM",
          .default_head_dim = 64,
          .own_code = "modeling_deepseek",
          .mtp = &kNextLayers,
          .layer = Layer,
          .read = Read,
          .write = Write,
          .check = Check};
}

}  // namespace

extern const Family kDeepseekV3, kKimiK2;
const Family kDeepseekV3 = FamilyOf("deepseek_v3");
const Family kKimiK2 = FamilyOf("kimi_k2");

}  // namespace ingot::model
