#include "model/config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/written_files.h"
#include "model/adapter_targets.h"
#include "model/config_json.h"
#include "model/config_rope.h"
#include "model/config_window.h"
#include "model/families/family.h"
#include "model/layer_spec.h"

namespace ingot::model {
namespace {

using base::Find;
using base::json::value;

// Rejects keys that would change the computation and are not implemented.
absl::Status CheckSupported(const value& json, const Family& family) {
  const std::string key(family.activation_key), usual(family.activation);
  std::string activation = usual;
  INGOT_RETURN_IF_ERROR(ReadString(json, key, &activation));
  if (activation != usual) return BadKey(key, absl::StrCat("is '", activation, "', only ", usual, " is supported"));
  bool mlp_bias = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "mlp_bias", &mlp_bias));
  if (mlp_bias && !family.reads_mlp_bias)
    return BadKey("mlp_bias", "is true, which is not supported by this model_type");
  bool causal = true;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "is_causal", &causal));
  if (!causal) return BadKey("is_causal", "is false: only causal attention is supported");
  if (const value* code = Find(json, "auto_map"); !IsNull(code)) {
    if (!code->is_object()) return BadKey("auto_map", "must be an object");
    for (const char* loader : {"AutoModel", "AutoModelForCausalLM"}) {
      const value* module = Find(*code, loader);
      if (module == nullptr) continue;
      const std::string_view given = module->is_string() ? std::string_view(module->get_string()) : "";
      if (family.own_code.empty() || given.substr(0, given.find('.')) != family.own_code) {
        return BadKey(
            "auto_map",
            absl::StrCat("names the folder's own modeling code for ", loader,
                         ", which Ingot does not run: remove the key if the model is a standard model of its type"));
      }
    }
  }
  if (!IsNull(Find(json, "quantization_config")) && family.from_file == nullptr) {
    return BadKey("quantization_config", "is set, which is not supported: use the model's bf16 release");
  }
  const value* architectures = Find(json, "architectures");
  if (IsNull(architectures)) return absl::OkStatus();
  if (!architectures->is_array()) return BadKey("architectures", "must be an array");
  for (const value& name : architectures->get_array()) {
    if (!name.is_string() || std::string_view(name.get_string()) != family.architecture) {
      return BadKey("architectures",
                    absl::StrCat("must be [\"", base::View(family.architecture), "\"] for this model_type"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTokenIds(const value& json, ModelConfig* config) {
  INGOT_RETURN_IF_ERROR(ReadInt(json, "bos_token_id", false, &config->bos_token_id));
  const value* eos = Find(json, "eos_token_id");
  if (IsNull(eos)) return absl::OkStatus();
  if (eos->is_array()) {
    for (const value& id : eos->get_array()) {
      const auto number = AsInt(id);
      if (!number.has_value()) return BadKey("eos_token_id", "must be an integer or a list of integers");
      config->eos_token_ids.push_back(*number);
    }
    return absl::OkStatus();
  }
  const auto number = AsInt(*eos);
  if (!number.has_value()) return BadKey("eos_token_id", "must be an integer or a list of integers");
  config->eos_token_ids.push_back(*number);
  return absl::OkStatus();
}

absl::Status ReadShape(const value& json, const Family& family, ModelConfig* config) {
  INGOT_RETURN_IF_ERROR(ReadInt(json, "vocab_size", true, &config->vocab_size));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "hidden_size", true, &config->hidden_size));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "intermediate_size", true, &config->intermediate_size));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_hidden_layers", true, &config->num_hidden_layers));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_attention_heads", true, &config->num_attention_heads));
  config->num_key_value_heads = config->num_attention_heads;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_key_value_heads", family.kv_heads_required, &config->num_key_value_heads));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "max_position_embeddings", true, &config->max_position_embeddings));
  config->head_dim = Find(json, "head_dim") == nullptr ? family.default_head_dim : 0;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "head_dim", false, &config->head_dim));
  if (config->head_dim == 0 && config->num_attention_heads > 0) {
    config->head_dim = config->hidden_size / config->num_attention_heads;
  }
  return absl::OkStatus();
}

// Reads the adapters that a LoRA run's checkpoint has in addition to the base.
absl::Status ReadLora(const value& json, LoraConfig* lora) {
  const value* given = Find(json, "ingot_lora");
  if (IsNull(given)) return absl::OkStatus();
  if (!given->is_object()) return BadKey("ingot_lora", "must be an object");
  INGOT_RETURN_IF_ERROR(ReadInt(*given, "rank", true, &lora->rank));
  INGOT_RETURN_IF_ERROR(ReadDouble(*given, "alpha", &lora->alpha));
  const value* targets = Find(*given, "targets");
  if (IsNull(targets) || !targets->is_array()) return BadKey("ingot_lora", "must have a list of targets");
  for (const value& target : targets->get_array()) {
    if (!target.is_string()) return BadKey("ingot_lora", "must have names as targets");
    lora->targets.emplace_back(target.get_string());
  }
  return absl::OkStatus();
}

absl::Status CheckLora(const ModelConfig& config) {
  const LoraConfig& lora = config.lora;
  if (lora.rank == 0) return absl::OkStatus();
  if (lora.rank < 0 || lora.rank > 1 << 14) {
    return BadKey("lora.rank", absl::StrCat("is ", lora.rank, ", outside 0..16384"));
  }
  if (!(lora.alpha > 0)) return BadKey("lora.alpha", "must be above 0");
  const std::vector<std::string> products = AdapterTargets(config);
  for (const std::string& target : lora.targets) {
    if (std::find(products.begin(), products.end(), target) != products.end()) continue;
    return BadKey("lora.targets", absl::StrCat("has '", target, "', which is not a product of a ", config.model_type,
                                               " layer: ", absl::StrJoin(products, ", ")));
  }
  return lora.targets.empty() ? BadKey("lora.targets", "is empty") : absl::OkStatus();
}

// Checks the keys that specify which layers have experts.
absl::Status CheckExpertLayers(const ModelConfig& config) {
  const ExpertsConfig& e = config.experts;
  if (e.count == 0) return absl::OkStatus();
  if (e.dense_layers < 0) return BadKey("first_k_dense_replace", "is negative");
  if (e.layer_step < 1)
    return BadKey("decoder_sparse_step", absl::StrCat("is ", e.layer_step, ": it must be 1 or more"));
  for (const int64_t layer : e.plain_layers) {
    if (layer >= 0 && layer < config.num_hidden_layers) continue;
    return BadKey("mlp_only_layers", absl::StrCat("has ", layer, ", outside 0..", config.num_hidden_layers - 1));
  }
  if (e.dense_layers == 0 && config.expert_layers_before(config.num_hidden_layers) == 0)
    return BadKey("mlp_only_layers", "and decoder_sparse_step leave no layer with experts");
  return absl::OkStatus();
}

absl::Status CheckExperts(const ExpertsConfig& e, int64_t layers) {
  if (e.count == 0) return absl::OkStatus();
  if (e.count < 1 || e.count > 1 << 14)
    return BadKey("num_experts", absl::StrCat("is ", e.count, ", outside 1..16384"));
  constexpr int64_t kMax = 1 << 18;  // each has at least one row in the tensor table
  if (e.count * layers > kMax) {
    return BadKey("num_experts", absl::StrCat("is ", e.count, " in ", layers, " layers: more than ", kMax, " in all"));
  }
  if (e.per_token < 1 || e.per_token > e.count) {
    return BadKey("num_experts_per_tok", absl::StrCat("is ", e.per_token, " of ", e.count, " experts"));
  }
  if (e.width < 1 || e.width > 1 << 22) return BadKey("moe_intermediate_size", absl::StrCat("is ", e.width));
  if (e.groups < 1 || e.count % e.groups != 0 || e.groups_per_token < 1 || e.groups_per_token > e.groups ||
      e.per_token > e.groups_per_token * (e.count / e.groups)) {
    return BadKey("n_group", absl::StrCat("is ", e.groups, " with topk_group ", e.groups_per_token, " of ", e.count,
                                          " experts, ", e.per_token, " per token"));
  }
  if (e.shared_width < 0) return BadKey("n_shared_experts", "is negative");
  return absl::OkStatus();
}

}  // namespace

bool ModelConfig::has_experts(int64_t layer) const {
  return experts.count > 0 && layer >= experts.dense_layers && (layer + 1) % experts.layer_step == 0 &&
         !std::binary_search(experts.plain_layers.begin(), experts.plain_layers.end(), layer);
}

int64_t ModelConfig::expert_layers_before(int64_t layer) const {
  int64_t count = 0;
  for (int64_t i = 0; i < layer; ++i) count += has_experts(i) ? 1 : 0;
  return count;
}

absl::StatusOr<ModelConfig> ModelConfig::FromJson(const value& json) {
  if (!json.is_object()) return absl::InvalidArgumentError("model configuration: not a JSON object");
  ModelConfig config;
  config.model_type.clear();
  INGOT_RETURN_IF_ERROR(ReadString(json, "model_type", &config.model_type));
  const Family* family = FindFamily(config.model_type);
  if (family == nullptr) {
    return BadKey("model_type", absl::StrCat("is '", config.model_type, "'; supported: ", FamilyNames()));
  }
  INGOT_RETURN_IF_ERROR(CheckSupported(json, *family));
  INGOT_RETURN_IF_ERROR(ReadShape(json, *family, &config));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "rms_norm_eps", &config.rms_norm_eps));
  INGOT_RETURN_IF_ERROR(ReadRope(json, *family, &config));
  INGOT_RETURN_IF_ERROR(ReadWindow(json, *family, &config));
  config.tie_word_embeddings = family->tied_by_default;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "tie_word_embeddings", &config.tie_word_embeddings));
  config.qk_norm = family->qk_norm;
  config.hidden_act = family->activation;
  bool bias = false;
  if (family->reads_attention_bias) INGOT_RETURN_IF_ERROR(ReadBool(json, "attention_bias", &bias));
  config.attention_bias = bias || family->qkv_bias;
  config.attention_out_bias = (bias && family->out_bias) || family->always_out_bias;
  if (family->reads_mlp_bias) INGOT_RETURN_IF_ERROR(ReadBool(json, "mlp_bias", &config.mlp_bias));
  INGOT_RETURN_IF_ERROR(ReadLora(json, &config.lora));
  if (family->read != nullptr) INGOT_RETURN_IF_ERROR(family->read(json, &config));
  INGOT_RETURN_IF_ERROR(ReadString(json, "torch_dtype", &config.torch_dtype));
  INGOT_RETURN_IF_ERROR(ReadString(json, "dtype", &config.torch_dtype));
  INGOT_RETURN_IF_ERROR(ReadTokenIds(json, &config));
  INGOT_RETURN_IF_ERROR(config.Validate());
  return config;
}

absl::StatusOr<ModelConfig> ModelConfig::FromFile(const std::string& path) {
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (!text.ok()) return base::Annotate(text.status(), "a model folder needs a config.json");
  INGOT_RETURN_IF_ERROR(base::CheckWritten(path, *text));
  auto json = base::ParseJson(*text);
  if (!json.ok()) return base::Annotate(json.status(), path);
  auto config = FromJson(*json);
  if (!config.ok()) return base::Annotate(config.status(), path);
  return config;
}

value ModelConfig::ToJson() const {
  const Family* family = FindFamily(model_type);
  base::json::object o;
  if (family != nullptr) o["architectures"] = base::json::array{value(std::string(family->architecture).c_str())};
  o["model_type"] = model_type;
  o["vocab_size"] = vocab_size;
  o["hidden_size"] = hidden_size;
  o["intermediate_size"] = intermediate_size;
  o["num_hidden_layers"] = num_hidden_layers;
  o["num_attention_heads"] = num_attention_heads;
  o["num_key_value_heads"] = num_key_value_heads;
  o["head_dim"] = head_dim;
  if (family != nullptr) o[std::string(family->activation_key).c_str()] = std::string(family->activation);
  o["max_position_embeddings"] = max_position_embeddings;
  o["rms_norm_eps"] = rms_norm_eps;
  WriteRope(*this, &o);
  o["tie_word_embeddings"] = tie_word_embeddings;
  if (family != nullptr && (family->reads_attention_bias || family->always_out_bias))
    o["attention_bias"] = attention_bias;
  if (family != nullptr && family->reads_mlp_bias) o["mlp_bias"] = mlp_bias;
  if (family != nullptr) WriteWindow(*this, *family, &o);
  o["attention_dropout"] = 0.0;
  o["initializer_range"] = 0.02;
  o["use_cache"] = true;
  o["torch_dtype"] = torch_dtype;
  o["dtype"] = torch_dtype;
  if (family != nullptr && family->write != nullptr) family->write(*this, &o);
  if (lora.rank > 0) {
    base::json::array targets;
    for (const std::string& target : lora.targets) targets.emplace_back(target.c_str());
    o["ingot_lora"] = base::json::object{{"rank", lora.rank}, {"alpha", lora.alpha}, {"targets", std::move(targets)}};
  }
  if (bos_token_id >= 0) o["bos_token_id"] = bos_token_id;
  if (eos_token_ids.size() == 1) o["eos_token_id"] = eos_token_ids[0];
  if (eos_token_ids.size() > 1) {
    base::json::array ids;
    for (int64_t id : eos_token_ids) ids.emplace_back(id);
    o["eos_token_id"] = std::move(ids);
  }
  return o;
}

absl::Status ModelConfig::Validate() const {
  const Family* family = FindFamily(model_type);
  if (family == nullptr) {
    return BadKey("model_type", absl::StrCat("is '", model_type, "'; supported: ", FamilyNames()));
  }
  struct Range {
    const char* key;
    int64_t value, most;
  };
  const Range ranges[] = {{"vocab_size", vocab_size, 1 << 24},
                          {"hidden_size", hidden_size, 1 << 20},
                          {"intermediate_size", intermediate_size, 1 << 22},
                          {"num_hidden_layers", num_hidden_layers, 1 << 12},
                          {"num_attention_heads", num_attention_heads, 1 << 14},
                          {"num_key_value_heads", num_key_value_heads, 1 << 14},
                          {"head_dim", head_dim, 1 << 14},
                          {"max_position_embeddings", max_position_embeddings, 1 << 24}};
  for (const Range& range : ranges) {
    if (range.value < 1 || range.value > range.most) {
      return BadKey(range.key, absl::StrCat("is ", range.value, ", outside 1..", range.most));
    }
  }
  if (num_attention_heads % num_key_value_heads != 0)
    return BadKey("num_key_value_heads", "does not divide num_attention_heads");
  if (head_dim % 2 != 0) return BadKey("head_dim", "must be even");
  if (!(rms_norm_eps > 0 && rms_norm_eps < 1)) return BadKey("rms_norm_eps", "must lie between 0 and 1");
  if (!(rope_theta >= 1 && rope_theta < 1e12)) return BadKey("rope_theta", "must lie between 1 and 1e12");
  INGOT_RETURN_IF_ERROR(CheckRope(rope_scaling));
  if (torch_dtype != "float32" && torch_dtype != "float64" && torch_dtype != "bfloat16" && torch_dtype != "float16") {
    return BadKey("torch_dtype",
                  absl::StrCat("is '", torch_dtype, "'; supported: float32, float64, bfloat16, float16"));
  }
  // An export would lose a value that the family's own definition cannot express.
  const bool bias = family->reads_attention_bias
                        ? attention_out_bias == (attention_bias && family->out_bias)
                        : attention_bias == family->qkv_bias && attention_out_bias == family->always_out_bias;
  if (!bias) return BadKey("attention_bias", absl::StrCat("does not fit model_type ", model_type));
  if (mlp_bias && !family->reads_mlp_bias)
    return BadKey("mlp_bias", absl::StrCat("does not fit model_type ", model_type));
  if ((experts.layer_step != 1 || !experts.plain_layers.empty()) && !family->names_plain_layers)
    return BadKey("mlp_only_layers", absl::StrCat("does not fit model_type ", model_type));
  if (qk_norm != family->qk_norm && !family->qk_norm_optional)
    return BadKey("qk_norm", absl::StrCat("does not fit model_type ", model_type));
  if (rotary_dim < 0 || rotary_dim > head_dim || rotary_dim % 2 != 0) {
    return BadKey("partial_rotary_factor", absl::StrCat("turns ", rotary_dim, " numbers of a head of ", head_dim,
                                                        ": they must be even and no more than the head"));
  }
  if (sliding_window < 0 || (!windowed.empty() && static_cast<int64_t>(windowed.size()) != num_hidden_layers)) {
    return BadKey("sliding_window", "does not fit the layers");
  }
  INGOT_RETURN_IF_ERROR(CheckExperts(experts, num_hidden_layers));
  INGOT_RETURN_IF_ERROR(CheckExpertLayers(*this));
  INGOT_RETURN_IF_ERROR(CheckLora(*this));
  if (family->check != nullptr) INGOT_RETURN_IF_ERROR(family->check(*this));
  return absl::OkStatus();
}

absl::Status ModelConfig::CheckDevice(std::string_view device) const {
  if (recurrent.layers.empty() || device.substr(0, 3) == "cpu") return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the recurrent layers of ", model_type,
                                               " have kernels only for the CPU, but the device is ", base::View(device),
                                               ": set device: cpu"));
}

int64_t ModelConfig::ParameterCount() const { return SpecOf(*this).elements(); }

}  // namespace ingot::model
