// Qwen3's mixtures of experts (arXiv 2505.09388): softmax routing, with the chosen weights divided by their sum.
#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

absl::Status Read(const base::json::value& json, ModelConfig* config) {
  ExpertsConfig& e = config->experts;
  e.count = 128;
  e.per_token = 8;
  e.width = 768;
  e.balance_coefficient = 0.001;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_local_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts_per_tok", false, &e.per_token));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "moe_intermediate_size", false, &e.width));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "norm_topk_prob", &e.normalize));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "router_aux_loss_coef", &e.balance_coefficient));
  return ReadPlainLayers(json, &e);
}

void Write(const ModelConfig& config, base::json::object* json) {
  const ExpertsConfig& e = config.experts;
  base::json::object& o = *json;
  o["num_experts"] = e.count;
  o["num_experts_per_tok"] = e.per_token;
  o["moe_intermediate_size"] = e.width;
  o["norm_topk_prob"] = e.normalize;
  o["router_aux_loss_coef"] = e.balance_coefficient;
  WritePlainLayers(e, json);
}

}  // namespace

extern const Family kQwen3Moe;
const Family kQwen3Moe = {.model_type = "qwen3_moe",
                          .architecture = "Qwen3MoeForCausalLM",
                          .reads_attention_bias = true,
                          .qk_norm = true,
                          .names_plain_layers = true,
                          .window = Window::kSwitched,
                          .layer = ExpertLayer,
                          .read = Read,
                          .write = Write};

}  // namespace ingot::model
