// GLM-4.5 (arXiv 2508.06471): sigmoid routing with a selection bias, groups of experts, a shared expert, dense first
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
  INGOT_RETURN_IF_ERROR(ReadGroupedExperts(json, &e));
  config->qk_norm = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "use_qk_norm", &config->qk_norm));
  return absl::OkStatus();
}

void Write(const ModelConfig& config, base::json::object* json) {
  WriteGroupedExperts(config.experts, json);
  (*json)["use_qk_norm"] = config.qk_norm;
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
                         .mtp = &kNextLayers,
                         .out_bias = false,
                         .layer = ExpertLayer,
                         .read = Read,
                         .write = Write};

}  // namespace ingot::model
