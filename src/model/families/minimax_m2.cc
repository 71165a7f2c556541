// MiniMax-M2: sigmoid routing with a selection bias, norms over all heads of q and k together, partial RoPE.
#include "model/config_json.h"
#include "model/families/family.h"
#include "model/families/rows.h"

namespace ingot::model {
namespace {

const ExpertNames kNames = {.router = "block_sparse_moe.gate.weight",
                            .correction_bias = "block_sparse_moe.e_score_correction_bias",
                            .gate = "block_sparse_moe.experts.%.w1",
                            .up = "block_sparse_moe.experts.%.w3",
                            .down = "block_sparse_moe.experts.%.w2"};

LayerSpec Layer(const ModelConfig& config, int64_t index) { return ExpertLayer(config, index, kNames); }

absl::Status Read(const base::json::value& json, ModelConfig* config) {
  ExpertsConfig& e = config->experts;
  e.count = 256;
  e.per_token = 8;
  e.width = config->intermediate_size;
  e.scoring = "sigmoid";
  e.normalize = e.correction_bias = true;
  e.balance_coefficient = 0.001;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_local_experts", false, &e.count));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_experts_per_tok", false, &e.per_token));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "router_aux_loss_coef", &e.balance_coefficient));
  INGOT_RETURN_IF_ERROR(RejectOther(json, "scoring_func", "sigmoid"));
  INGOT_RETURN_IF_ERROR(RejectOther(json, "qk_norm_type", "per_layer"));
  INGOT_RETURN_IF_ERROR(RejectNumber(json, "shared_intermediate_size", 0));
  for (const char* key : {"use_routing_bias", "use_qk_norm"}) {
    bool on = true;
    INGOT_RETURN_IF_ERROR(ReadBool(json, key, &on));
    if (!on) return BadKey(key, "is false, which is not supported");
  }
  config->qk_norm_whole = true;
  int64_t turned = config->rotary_dim;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "rotary_dim", false, &turned));
  config->rotary_dim = turned == config->head_dim ? 0 : turned;
  return absl::OkStatus();
}

void Write(const ModelConfig& config, base::json::object* json) {
  base::json::object& o = *json;
  o["num_local_experts"] = config.experts.count;
  o["num_experts_per_tok"] = config.experts.per_token;
  o["router_aux_loss_coef"] = config.experts.balance_coefficient;
  o["rotary_dim"] = config.rotary_dim > 0 ? config.rotary_dim : config.head_dim;
}

}  // namespace

extern const Family kMiniMaxM2;
const Family kMiniMaxM2 = {.model_type = "minimax_m2",
                           .architecture = "MiniMaxM2ForCausalLM",
                           .default_head_dim = 128,
                           .qk_norm = true,
                           .default_rope_theta = 5e6,
                           .partial_rotary = true,
                           .own_code = "modeling_minimax_m2",
                           .layer = Layer,
                           .read = Read,
                           .write = Write};

}  // namespace ingot::model
