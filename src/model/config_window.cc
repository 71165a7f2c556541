#include "model/config_window.h"

#include <algorithm>

#include "model/config_json.h"

namespace ingot::model {
namespace {

using base::Find;
using base::json::value;

// The defaults of `transformers`.
constexpr int64_t kDefaultWindow = 4096, kDefaultWindowLayers = 28;

// For files that list every layer's type.
absl::Status ReadLayerTypes(const value& layers, ModelConfig* config) {
  if (!layers.is_array()) return BadKey("layer_types", "must be an array");
  const auto& list = layers.get_array();
  if (static_cast<int64_t>(list.size()) != config->num_hidden_layers) {
    return BadKey("layer_types", absl::StrCat("names ", list.size(), " layers of ", config->num_hidden_layers));
  }
  config->windowed.clear();
  for (const value& layer : list) {
    const std::string_view kind = layer.is_string() ? std::string_view(layer.get_string()) : "?";
    if (kind != "full_attention" && kind != "sliding_attention") {
      return BadKey("layer_types", absl::StrCat("has a layer of kind '", base::View(kind),
                                                "'; supported: full_attention, sliding_attention"));
    }
    config->windowed.push_back(kind == "sliding_attention");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadWindow(const value& json, const Family& family, ModelConfig* config) {
  // Validate rejects other values, so nothing is allocated for them here.
  if (config->num_hidden_layers < 1 || config->num_hidden_layers > 1 << 12) return absl::OkStatus();
  if (family.lists_layers) return absl::OkStatus();
  const auto layers = static_cast<size_t>(config->num_hidden_layers);
  config->windowed.assign(layers, false);
  if (family.window == Window::kEveryLayer) config->windowed.assign(layers, true);
  if (family.window == Window::kSwitched) {
    bool used = false;
    int64_t from = kDefaultWindowLayers;
    INGOT_RETURN_IF_ERROR(ReadBool(json, "use_sliding_window", &used));
    INGOT_RETURN_IF_ERROR(ReadInt(json, "max_window_layers", false, &from));
    for (size_t i = 0; i < layers; ++i) config->windowed[i] = used && static_cast<int64_t>(i) >= from;
  }
  if (family.window == Window::kPattern) {
    int64_t every = family.full_layer_every;
    INGOT_RETURN_IF_ERROR(ReadInt(json, "sliding_window_pattern", false, &every));
    if (every < 1) return BadKey("sliding_window_pattern", "must be above 0");
    for (size_t i = 0; i < layers; ++i) config->windowed[i] = (static_cast<int64_t>(i) + 1) % every != 0;
  }
  const value* kinds = Find(json, "layer_types");
  if (!IsNull(kinds)) INGOT_RETURN_IF_ERROR(ReadLayerTypes(*kinds, config));
  const bool any = std::find(config->windowed.begin(), config->windowed.end(), true) != config->windowed.end();
  if (any && family.window == Window::kNone) {
    return BadKey("layer_types", "has a layer of kind sliding_attention, which this model_type does not have");
  }
  const value* stated = Find(json, "sliding_window");
  config->sliding_window = family.default_window > 0 ? family.default_window : kDefaultWindow;
  INGOT_RETURN_IF_ERROR(ReadInt(json, "sliding_window", false, &config->sliding_window));
  const bool none = !any || (stated != nullptr && stated->is_null());
  if (!none && config->sliding_window < 1) return BadKey("sliding_window", "must be above 0");
  if (none || config->sliding_window >= config->max_position_embeddings) {
    // Two layer types may differ in more than the window.
    config->sliding_window = 0;
    if (config->local_rope_theta == 0) config->windowed.clear();
  }
  return absl::OkStatus();
}

void WriteWindow(const ModelConfig& config, const Family& family, base::json::object* json) {
  if (family.window == Window::kNone) return;
  base::json::object& o = *json;
  if (config.sliding_window > 0) {
    o["sliding_window"] = config.sliding_window;
  } else if (family.window == Window::kPattern) {
    o["sliding_window"] = config.max_position_embeddings;
  } else {
    o["sliding_window"] = nullptr;
  }
  if (family.window == Window::kSwitched) o["use_sliding_window"] = config.sliding_window > 0;
  if (config.windowed.empty() || family.window == Window::kEveryLayer) return;
  base::json::array kinds;
  for (const bool windowed : config.windowed) kinds.emplace_back(windowed ? "sliding_attention" : "full_attention");
  o["layer_types"] = std::move(kinds);
  if (family.window == Window::kSwitched) {
    const auto first = std::find(config.windowed.begin(), config.windowed.end(), true) - config.windowed.begin();
    o["max_window_layers"] = static_cast<int64_t>(first);
  }
}

}  // namespace ingot::model
