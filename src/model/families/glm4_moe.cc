// GLM-4.5 (arXiv 2508.06471): sigmoid routing with a bias that chooses, groups of experts, a shared expert, dense first
// layers, partial RoPE.
#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

absl::Status Read(const base::json::value& json, ModelConfig* config) {
  ExpertsConfig& e = config->experts;
  e.count = 128;
  e.per_token = 8;
  e.width = 1408;
  e.scoring = "sigmoid";
  e.normalize = e.correction_bias = true;
  e.dense_layers = 1;
  int64_t shared = 1;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_local_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "n_routed_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts_per_tok", false, &e.per_token));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "moe_intermediate_size", false, &e.width));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "n_shared_experts", false, &shared));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "first_k_dense_replace", false, &e.dense_layers));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "n_group", false, &e.groups));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "topk_group", false, &e.groups_per_token));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "routed_scaling_factor", &e.scale));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "norm_topk_prob", &e.normalize));
  config->qk_norm = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "use_qk_norm", &config->qk_norm));
  if (shared < 1 || shared > 1 << 10) return BadKey("n_shared_experts", "must lie in 1..1024");
  e.shared_width = shared * e.width;
  return absl::OkStatus();
}

void Write(const ModelConfig& config, base::json::object* json) {
  const ExpertsConfig& e = config.experts;
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
  o["use_qk_norm"] = config.qk_norm;
}

}  // namespace

extern const Family kGlm4Moe;
const Family kGlm4Moe = {.model_type = "glm4_moe",
                         .architecture = "Glm4MoeForCausalLM",
                         .default_head_dim = 128,
                         .reads_attention_bias = true,
                         .qk_norm = true,
                         .qk_norm_optional = true,
                         .partial_rotary = true,
                         .rotary_share = 0.5,
                         .skips_next_layers = true,
                         .out_bias = false,
                         .layer = ExpertLayer,
                         .read = Read,
                         .write = Write};

}  // namespace ingot::model
