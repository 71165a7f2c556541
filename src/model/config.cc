#include "model/config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/file.h"

namespace ingot::model {
namespace {

using base::Find;
using base::json::value;

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  int64_t default_head_dim;  // 0 = hidden_size / num_attention_heads
  bool qkv_bias;             // always on, whatever the file says
  bool reads_attention_bias;
  bool qk_norm;
};
constexpr std::array<Family, 4> kFamilies = {{
    {"llama", "LlamaForCausalLM", 0, false, true, false},
    {"mistral", "MistralForCausalLM", 0, false, false, false},
    {"qwen2", "Qwen2ForCausalLM", 0, true, false, false},
    {"qwen3", "Qwen3ForCausalLM", 128, false, true, true},
}};

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

absl::Status Bad(std::string_view key, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model configuration: '", base::View(key), "' ", base::View(what)));
}

bool IsNull(const value* v) { return v == nullptr || v->is_null(); }

std::optional<int64_t> AsInt(const value& v) {
  if (v.is_int64()) return v.get_int64();
  if (v.is_uint64() && v.get_uint64() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return static_cast<int64_t>(v.get_uint64());
  }
  return std::nullopt;
}

std::optional<double> AsDouble(const value& v) {
  if (v.is_double()) return v.get_double();
  if (const auto integer = AsInt(v)) return static_cast<double>(*integer);
  return std::nullopt;
}

// Reads `key` into `out`. If it is absent or null, `out` is unchanged, or it is an error if `required`.
absl::Status ReadInt(const value& json, std::string_view key, bool required, int64_t* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return required ? Bad(key, "is missing") : absl::OkStatus();
  const auto number = AsInt(*v);
  if (!number.has_value()) return Bad(key, "must be an integer");
  *out = *number;
  return absl::OkStatus();
}

absl::Status ReadDouble(const value& json, std::string_view key, double* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return absl::OkStatus();
  const auto number = AsDouble(*v);
  if (!number.has_value()) return Bad(key, "must be a number");
  *out = *number;
  return absl::OkStatus();
}

absl::Status ReadBool(const value& json, std::string_view key, bool* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return absl::OkStatus();
  if (!v->is_bool()) return Bad(key, "must be true or false");
  *out = v->get_bool();
  return absl::OkStatus();
}

absl::Status ReadString(const value& json, std::string_view key, std::string* out) {
  const value* v = Find(json, key);
  if (IsNull(v)) return absl::OkStatus();
  if (!v->is_string()) return Bad(key, "must be a string");
  *out = std::string(v->get_string());
  return absl::OkStatus();
}

absl::Status CheckWholeHeadRotates(const value& json) {
  double partial = 1;
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "partial_rotary_factor", &partial));
  return partial == 1 ? absl::OkStatus() : Bad("partial_rotary_factor", "other than 1 is not supported");
}

constexpr std::array<std::string_view, 14> kRopeKeys = {"rope_type",        "type",
                                                        "rope_theta",       "partial_rotary_factor",
                                                        "factor",           "original_max_position_embeddings",
                                                        "low_freq_factor",  "high_freq_factor",
                                                        "beta_fast",        "beta_slow",
                                                        "attention_factor", "mscale",
                                                        "mscale_all_dim",   "truncate"};

// Reads the object under `key` of the file.
absl::Status ReadRopeScaling(const char* key, const value& rope, ModelConfig* config) {
  if (!rope.is_object()) return Bad(key, "must be an object or null");
  for (const auto& field : rope.get_object()) {
    const std::string_view name(field.key().data(), field.key().size());
    if (std::find(kRopeKeys.begin(), kRopeKeys.end(), name) == kRopeKeys.end()) {
      return Bad(key, absl::StrCat("has '", base::View(name), "', which is not known"));
    }
  }
  RopeScaling& scaling = config->rope_scaling;
  INGOT_RETURN_IF_ERROR(ReadString(rope, "type", &scaling.type));
  INGOT_RETURN_IF_ERROR(ReadString(rope, "rope_type", &scaling.type));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "rope_theta", &config->rope_theta));
  INGOT_RETURN_IF_ERROR(CheckWholeHeadRotates(rope));
  if (scaling.type == "default") {
    if (!IsNull(Find(rope, "factor"))) return Bad(key, "has a factor and no type to say what it stretches");
    return absl::OkStatus();
  }
  scaling.original_positions = config->max_position_embeddings;
  INGOT_RETURN_IF_ERROR(ReadInt(rope, "original_max_position_embeddings", false, &scaling.original_positions));
  const bool llama3 = scaling.type == "llama3";
  if (IsNull(Find(rope, "factor"))) return Bad(key, "has no factor");
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "factor", &scaling.factor));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "low_freq_factor", &scaling.low_freq_factor));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "high_freq_factor", &scaling.high_freq_factor));
  if (llama3) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "beta_fast", &scaling.beta_fast));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "beta_slow", &scaling.beta_slow));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "mscale", &scaling.mscale));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "mscale_all_dim", &scaling.mscale_all_dim));
  INGOT_RETURN_IF_ERROR(ReadBool(rope, "truncate", &scaling.truncate));
  double attention_factor = 0;
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "attention_factor", &attention_factor));
  if (attention_factor != 0) scaling.attention_factor = attention_factor;
  return absl::OkStatus();
}

// Older files have rope_theta at the top level and rope_scaling. Newer ones have both in rope_parameters.
absl::Status ReadRope(const value& json, ModelConfig* config) {
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "rope_theta", &config->rope_theta));
  std::optional<RopeScaling> other;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const value* rope = Find(json, key);
    if (IsNull(rope)) continue;
    config->rope_scaling = {};
    INGOT_RETURN_IF_ERROR(ReadRopeScaling(key, *rope, config));
    if (other.has_value() && *other != config->rope_scaling) return Bad(key, "says something else than rope_scaling");
    other = config->rope_scaling;
  }
  return CheckWholeHeadRotates(json);
}

absl::Status CheckRope(const RopeScaling& scaling) {
  const auto bad = [](std::string_view what) { return Bad("rope_scaling", what); };
  if (scaling.type == "default") return absl::OkStatus();
  if (scaling.type != "linear" && scaling.type != "llama3" && scaling.type != "yarn") {
    return bad(absl::StrCat("is of type '", scaling.type, "'; supported: default, linear, llama3, yarn"));
  }
  if (!(scaling.factor >= 1 && scaling.factor < 1e6)) return bad("must have a factor from 1 to 1e6");
  if (scaling.type == "linear") return absl::OkStatus();
  if (scaling.original_positions < 1) return bad("must have original_max_position_embeddings above 0");
  if (scaling.type == "llama3") {
    return scaling.low_freq_factor > 0 && scaling.low_freq_factor < scaling.high_freq_factor
               ? absl::OkStatus()
               : bad("must have low_freq_factor above 0 and below high_freq_factor");
  }
  if (!(scaling.beta_slow > 0 && scaling.beta_slow < scaling.beta_fast)) {
    return bad("must have beta_slow above 0 and below beta_fast");
  }
  if (scaling.attention_factor.has_value() && !(*scaling.attention_factor > 0)) {
    return bad("must have an attention_factor above 0");
  }
  return scaling.mscale >= 0 && scaling.mscale_all_dim >= 0 ? absl::OkStatus() : bad("must not have a negative mscale");
}

base::json::object RopeToJson(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  base::json::object o{{"rope_type", scaling.type}, {"rope_theta", config.rope_theta}};
  if (scaling.type == "default") return o;
  o["factor"] = scaling.factor;
  if (scaling.type == "linear") return o;
  o["original_max_position_embeddings"] = scaling.original_positions;
  if (scaling.type == "llama3") {
    o["low_freq_factor"] = scaling.low_freq_factor;
    o["high_freq_factor"] = scaling.high_freq_factor;
    return o;
  }
  o["beta_fast"] = scaling.beta_fast;
  o["beta_slow"] = scaling.beta_slow;
  o["truncate"] = scaling.truncate;
  if (scaling.attention_factor.has_value()) o["attention_factor"] = *scaling.attention_factor;
  if (scaling.mscale != 0) o["mscale"] = scaling.mscale;
  if (scaling.mscale_all_dim != 0) o["mscale_all_dim"] = scaling.mscale_all_dim;
  return o;
}

// The defaults of `transformers`.
constexpr int64_t kDefaultWindow = 4096, kDefaultWindowLayers = 28;

// Refuses a window through which some layer sees less than the whole context.
absl::Status CheckNoSlidingWindow(const value& json, const ModelConfig& config) {
  const bool qwen = config.model_type == "qwen2" || config.model_type == "qwen3";
  bool used = config.model_type == "mistral";
  int64_t from_layer = 0;
  if (qwen) {
    INGOT_RETURN_IF_ERROR(ReadBool(json, "use_sliding_window", &used));
    from_layer = kDefaultWindowLayers;
    INGOT_RETURN_IF_ERROR(ReadInt(json, "max_window_layers", false, &from_layer));
  }
  const value* stated = Find(json, "sliding_window");
  int64_t window = kDefaultWindow;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "sliding_window", false, &window));
  const bool none = stated != nullptr && stated->is_null();
  if (used && !none && from_layer < config.num_hidden_layers && window < config.max_position_embeddings) {
    return Bad("sliding_window",
               absl::StrCat("is ", window, stated == nullptr ? " where the file does not say, " : ", ",
                            "shorter than the context: sliding-window attention is not supported"));
  }
  const value* layers = Find(json, "layer_types");
  if (IsNull(layers)) return absl::OkStatus();
  if (!layers->is_array()) return Bad("layer_types", "must be an array");
  for (const value& layer : layers->get_array()) {
    if (!layer.is_string() || layer.get_string() != "full_attention") {
      return Bad("layer_types", "has a layer other than full_attention, which is not supported");
    }
  }
  return absl::OkStatus();
}

// Refuses keys that would change the computation and are not implemented.
absl::Status CheckSupported(const value& json, const Family& family) {
  std::string activation = "silu";
  INGOT_RETURN_IF_ERROR(ReadString(json, "hidden_act", &activation));
  if (activation != "silu") return Bad("hidden_act", absl::StrCat("is '", activation, "', only silu is supported"));
  bool mlp_bias = false;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "mlp_bias", &mlp_bias));
  if (mlp_bias) return Bad("mlp_bias", "is true, which is not supported");
  bool causal = true;
  INGOT_RETURN_IF_ERROR(ReadBool(json, "is_causal", &causal));
  if (!causal) return Bad("is_causal", "is false: only causal attention is supported");
  if (const value* code = Find(json, "auto_map"); !IsNull(code)) {
    if (!code->is_object()) return Bad("auto_map", "must be an object");
    for (const char* loader : {"AutoModel", "AutoModelForCausalLM"}) {
      if (Find(*code, loader) != nullptr) {
        return Bad("auto_map", absl::StrCat("names modelling code of the folder's own for ", loader,
                                            ", which is not run: remove it if the model is a plain one of its type"));
      }
    }
  }
  if (!IsNull(Find(json, "quantization_config"))) return Bad("quantization_config", "is set, which is not supported");
  const value* architectures = Find(json, "architectures");
  if (IsNull(architectures)) return absl::OkStatus();
  if (!architectures->is_array()) return Bad("architectures", "must be an array");
  for (const value& name : architectures->get_array()) {
    if (!name.is_string() || std::string_view(name.get_string()) != family.architecture) {
      return Bad("architectures",
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
      if (!number.has_value()) return Bad("eos_token_id", "must be an integer or a list of integers");
      config->eos_token_ids.push_back(*number);
    }
    return absl::OkStatus();
  }
  const auto number = AsInt(*eos);
  if (!number.has_value()) return Bad("eos_token_id", "must be an integer or a list of integers");
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
  const bool kv_required = family.model_type != "llama";
  INGOT_RETURN_IF_ERROR(ReadInt(json, "num_key_value_heads", kv_required, &config->num_key_value_heads));
  INGOT_RETURN_IF_ERROR(ReadInt(json, "max_position_embeddings", true, &config->max_position_embeddings));
  config->head_dim = Find(json, "head_dim") == nullptr ? family.default_head_dim : 0;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "head_dim", false, &config->head_dim));
  if (config->head_dim == 0 && config->num_attention_heads > 0) {
    config->head_dim = config->hidden_size / config->num_attention_heads;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfig::FromJson(const value& json) {
  if (!json.is_object()) return absl::InvalidArgumentError("model configuration: not a JSON object");
  ModelConfig config;
  config.model_type.clear();
  INGOT_RETURN_IF_ERROR(ReadString(json, "model_type", &config.model_type));
  const Family* family = FindFamily(config.model_type);
  if (family == nullptr) {
    return Bad("model_type", absl::StrCat("is '", config.model_type, "'; supported: llama, mistral, qwen2, qwen3"));
  }
  INGOT_RETURN_IF_ERROR(CheckSupported(json, *family));
  INGOT_RETURN_IF_ERROR(ReadShape(json, *family, &config));
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "rms_norm_eps", &config.rms_norm_eps));
  INGOT_RETURN_IF_ERROR(ReadRope(json, &config));
  INGOT_RETURN_IF_ERROR(CheckNoSlidingWindow(json, config));
  INGOT_RETURN_IF_ERROR(ReadBool(json, "tie_word_embeddings", &config.tie_word_embeddings));
  config.qk_norm = family->qk_norm;
  bool bias = false;
  if (family->reads_attention_bias) INGOT_RETURN_IF_ERROR(ReadBool(json, "attention_bias", &bias));
  config.attention_bias = bias || family->qkv_bias;
  config.attention_out_bias = bias;
  INGOT_RETURN_IF_ERROR(ReadString(json, "torch_dtype", &config.torch_dtype));
  INGOT_RETURN_IF_ERROR(ReadString(json, "dtype", &config.torch_dtype));
  INGOT_RETURN_IF_ERROR(ReadTokenIds(json, &config));
  INGOT_RETURN_IF_ERROR(config.Validate());
  return config;
}

absl::StatusOr<ModelConfig> ModelConfig::FromFile(const std::string& path) {
  const absl::StatusOr<std::string> text = base::ReadFile(path);
  if (!text.ok()) return base::Annotate(text.status(), "a model folder needs a config.json");
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
  o["hidden_act"] = "silu";
  o["max_position_embeddings"] = max_position_embeddings;
  o["rms_norm_eps"] = rms_norm_eps;
  o["rope_theta"] = rope_theta;
  o["rope_parameters"] = RopeToJson(*this);
  if (rope_scaling.type != "default") o["rope_scaling"] = RopeToJson(*this);  // the form that transformers 4 reads
  o["tie_word_embeddings"] = tie_word_embeddings;
  if (family != nullptr && family->reads_attention_bias) o["attention_bias"] = attention_bias;
  if (model_type == "llama") o["mlp_bias"] = false;
  if (model_type == "mistral") o["sliding_window"] = nullptr;
  if (model_type == "qwen2" || model_type == "qwen3") o["use_sliding_window"] = false;
  o["attention_dropout"] = 0.0;
  o["initializer_range"] = 0.02;
  o["use_cache"] = true;
  o["torch_dtype"] = torch_dtype;
  o["dtype"] = torch_dtype;
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
    return Bad("model_type", absl::StrCat("is '", model_type, "'; supported: llama, mistral, qwen2, qwen3"));
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
      return Bad(range.key, absl::StrCat("is ", range.value, ", outside 1..", range.most));
    }
  }
  if (num_attention_heads % num_key_value_heads != 0)
    return Bad("num_key_value_heads", "does not divide num_attention_heads");
  if (head_dim % 2 != 0) return Bad("head_dim", "must be even");
  if (!(rms_norm_eps > 0 && rms_norm_eps < 1)) return Bad("rms_norm_eps", "must lie between 0 and 1");
  if (!(rope_theta >= 1 && rope_theta < 1e12)) return Bad("rope_theta", "must lie between 1 and 1e12");
  INGOT_RETURN_IF_ERROR(CheckRope(rope_scaling));
  if (torch_dtype != "float32" && torch_dtype != "float64" && torch_dtype != "bfloat16" && torch_dtype != "float16") {
    return Bad("torch_dtype", absl::StrCat("is '", torch_dtype, "'; supported: float32, float64, bfloat16, float16"));
  }
  // An export would lose a value that the family's own definition cannot express.
  const bool bias = family->reads_attention_bias ? attention_bias == attention_out_bias
                                                 : attention_bias == family->qkv_bias && !attention_out_bias;
  if (!bias) return Bad("attention_bias", absl::StrCat("does not fit model_type ", model_type));
  if (qk_norm != family->qk_norm) return Bad("qk_norm", absl::StrCat("does not fit model_type ", model_type));
  return absl::OkStatus();
}

int64_t ModelConfig::ParameterCount() const {
  const int64_t q = num_attention_heads * head_dim, kv = num_key_value_heads * head_dim;
  int64_t layer = hidden_size * (2 * q + 2 * kv) + 3 * hidden_size * intermediate_size + 2 * hidden_size;
  if (attention_bias) layer += q + 2 * kv;
  if (attention_out_bias) layer += hidden_size;
  if (qk_norm) layer += 2 * head_dim;
  return vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + num_hidden_layers * layer + hidden_size;
}

}  // namespace ingot::model
