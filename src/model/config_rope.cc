#include "model/config_rope.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "model/config_json.h"

namespace ingot::model {
namespace {

using base::Find;
using base::json::value;

// Reads the fraction of a head that RoPE rotates, from `json` or from its RoPE object.
absl::Status ReadRotaryShare(const value& json, bool may_be_part, ModelConfig* config) {
  double share = 1;
  if (IsNull(Find(json, "partial_rotary_factor"))) return absl::OkStatus();
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "partial_rotary_factor", &share));
  if (!may_be_part && share != 1)
    return BadKey("partial_rotary_factor", "other than 1 is not supported by this model_type");
  if (!(share > 0 && share <= 1)) return BadKey("partial_rotary_factor", "must be above 0 and at most 1");
  config->rotary_dim = static_cast<int64_t>(share * static_cast<double>(config->head_dim));
  return absl::OkStatus();
}

constexpr std::array<std::string_view, 14> kRopeKeys = {"rope_type",        "type",
                                                        "rope_theta",       "partial_rotary_factor",
                                                        "factor",           "original_max_position_embeddings",
                                                        "low_freq_factor",  "high_freq_factor",
                                                        "beta_fast",        "beta_slow",
                                                        "attention_factor", "mscale",
                                                        "mscale_all_dim",   "truncate"};

// Reads the object under `key` in the file.
absl::Status ReadRopeScaling(const char* key, const value& rope, bool may_be_part, ModelConfig* config) {
  if (!rope.is_object()) return BadKey(key, "must be an object or null");
  for (const auto& field : rope.get_object()) {
    const std::string_view name(field.key().data(), field.key().size());
    if (std::find(kRopeKeys.begin(), kRopeKeys.end(), name) == kRopeKeys.end()) {
      return BadKey(key, absl::StrCat("has '", base::View(name), "', which is not known"));
    }
  }
  RopeScaling& scaling = config->rope_scaling;
  INGOT_RETURN_IF_ERROR(ReadString(rope, "type", &scaling.type));
  INGOT_RETURN_IF_ERROR(ReadString(rope, "rope_type", &scaling.type));
  INGOT_RETURN_IF_ERROR(ReadDouble(rope, "rope_theta", &config->rope_theta));
  INGOT_RETURN_IF_ERROR(ReadRotaryShare(rope, may_be_part, config));
  if (scaling.type == "default") {
    if (!IsNull(Find(rope, "factor"))) return BadKey(key, "has a factor but no type");
    return absl::OkStatus();
  }
  scaling.original_positions = config->max_position_embeddings;
  INGOT_RETURN_IF_ERROR(ReadInt(rope, "original_max_position_embeddings", false, &scaling.original_positions));
  const bool llama3 = scaling.type == "llama3";
  if (IsNull(Find(rope, "factor"))) return BadKey(key, "has no factor");
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

// Gemma 3's object contains one object per kind of layer.
absl::Status ReadRopePerKind(const value& rope, ModelConfig* config) {
  const value *full = Find(rope, "full_attention"), *sliding = Find(rope, "sliding_attention");
  if (IsNull(full) || IsNull(sliding))
    return BadKey("rope_parameters", "must have full_attention and sliding_attention");
  ModelConfig local;
  INGOT_RETURN_IF_ERROR(ReadRopeScaling("rope_parameters", *sliding, false, &local));
  if (local.rope_scaling.type != "default") return BadKey("rope_parameters", "stretches sliding_attention");
  config->local_rope_theta = local.rope_theta;
  return ReadRopeScaling("rope_parameters", *full, false, config);
}

}  // namespace

// Older files have rope_theta at the top level and a separate rope_scaling. Newer files have both in rope_parameters.
absl::Status ReadRope(const value& json, const Family& family, ModelConfig* config) {
  const double share = family.rotary_share;
  config->rope_theta = family.default_rope_theta;
  config->local_rope_theta = family.default_local_rope_theta;
  INGOT_RETURN_IF_ERROR(ReadDouble(json, "rope_theta", &config->rope_theta));
  if (config->local_rope_theta > 0) {
    INGOT_RETURN_IF_ERROR(ReadDouble(json, "rope_local_base_freq", &config->local_rope_theta));
  }
  if (share != 1) config->rotary_dim = static_cast<int64_t>(share * static_cast<double>(config->head_dim));
  INGOT_RETURN_IF_ERROR(ReadRotaryShare(json, family.partial_rotary, config));
  std::optional<RopeScaling> other;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const value* rope = Find(json, key);
    if (IsNull(rope)) continue;
    config->rope_scaling = {};
    if (config->local_rope_theta > 0 && rope->is_object() && Find(*rope, "full_attention") != nullptr) {
      INGOT_RETURN_IF_ERROR(ReadRopePerKind(*rope, config));
    } else {
      INGOT_RETURN_IF_ERROR(ReadRopeScaling(key, *rope, family.partial_rotary, config));
    }
    if (other.has_value() && *other != config->rope_scaling) return BadKey(key, "contradicts rope_scaling");
    other = config->rope_scaling;
  }
  if (config->rotary_dim == config->head_dim) config->rotary_dim = 0;
  return absl::OkStatus();
}

absl::Status CheckRope(const RopeScaling& scaling) {
  const auto bad = [](std::string_view what) { return BadKey("rope_scaling", what); };
  if (scaling.type == "default") return absl::OkStatus();
  if (scaling.type != "linear" && scaling.type != "llama3" && scaling.type != "yarn" && scaling.type != "dynamic") {
    return bad(absl::StrCat("is of type '", scaling.type, "'; supported: default, dynamic, linear, llama3, yarn"));
  }
  if (!(scaling.factor >= 1 && scaling.factor < 1e6)) return bad("must have a factor from 1 to 1e6");
  if (scaling.type == "linear" || scaling.type == "dynamic") return absl::OkStatus();
  if (scaling.original_positions < 1) return bad("must have original_max_position_embeddings above 0");
  if (scaling.type == "llama3") {
    return scaling.low_freq_factor > 0 && scaling.low_freq_factor < scaling.high_freq_factor
               ? absl::OkStatus()
               : bad("must have low_freq_factor above 0 and below high_freq_factor");
  }
  if (!(scaling.beta_slow > 0 && scaling.beta_slow <= scaling.beta_fast)) {
    return bad("must have beta_slow above 0 and not above beta_fast");
  }
  if (scaling.attention_factor.has_value() && !(*scaling.attention_factor > 0)) {
    return bad("must have an attention_factor above 0");
  }
  return scaling.mscale >= 0 && scaling.mscale_all_dim >= 0 ? absl::OkStatus() : bad("must not have a negative mscale");
}

static base::json::object ScalingToJson(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  base::json::object o{{"rope_type", scaling.type}, {"rope_theta", config.rope_theta}};
  if (config.rotary_dim > 0) {
    o["partial_rotary_factor"] = static_cast<double>(config.rotary_dim) / static_cast<double>(config.head_dim);
  }
  if (scaling.type == "default") return o;
  o["factor"] = scaling.factor;
  if (scaling.type == "linear" || scaling.type == "dynamic") return o;
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

void WriteRope(const ModelConfig& config, base::json::object* json) {
  base::json::object& o = *json;
  o["rope_theta"] = config.rope_theta;
  if (config.local_rope_theta > 0) {
    o["rope_local_base_freq"] = config.local_rope_theta;
    o["rope_parameters"] = base::json::object{
        {"full_attention", ScalingToJson(config)},
        {"sliding_attention", base::json::object{{"rope_type", "default"}, {"rope_theta", config.local_rope_theta}}}};
    return;
  }
  o["rope_parameters"] = ScalingToJson(config);
  if (config.rotary_dim > 0) o["partial_rotary_factor"] = ScalingToJson(config)["partial_rotary_factor"];
  if (config.rope_scaling.type != "default") o["rope_scaling"] = ScalingToJson(config);  // for transformers 4
}

}  // namespace ingot::model
