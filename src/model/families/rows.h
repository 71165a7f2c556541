// Helpers that build the layer tables shared by several model families.
#pragma once

#include <cstdint>
#include <string>

#include "model/families/family.h"
#include "model/layer_spec.h"

namespace ingot::model {

// Returns "model.layers.INDEX."
std::string LayerPrefix(int64_t index);

// The prediction layers of DeepSeek-V3 and related families, which follow the last layer.
extern const MtpNames kNextLayers;

// Adds grouped-query attention for layer `index`: q, k, v, and o, with the biases, head norms, window, and sinks that
// the configuration specifies.
void AddAttention(const ModelConfig& config, int64_t index, LayerSpec* layer);

// Adds the gate, up, and down projections of a gated feed-forward block, with biases if the configuration has them.
void AddGatedFeedForward(const ModelConfig& config, const std::string& prefix, int64_t width, LayerSpec* layer);

// Returns the norm, attention, and norm that precede the feed-forward block in a Llama layer.
LayerSpec AttentionLayer(const ModelConfig& config, int64_t index);

// The names of a layer's experts in a checkpoint, without the layer prefix. "%" stands for the expert index.
struct ExpertNames {
  const char *router, *correction_bias, *gate, *up, *down;
  const char *shared_gate = "", *shared_up = "", *shared_down = "", *shared_share = "";
};
extern const ExpertNames kMlpExperts;  // mlp.gate, mlp.experts.%.gate_proj, ...

// Reads the keys used by DeepSeek-V3 and related families: expert groups, shared experts, and initial dense layers.
// Missing keys leave values unchanged. The default is one shared expert.
absl::Status ReadGroupedExperts(const base::json::value& json, ExpertsConfig* experts);
void WriteGroupedExperts(const ExpertsConfig& experts, base::json::object* json);

// Reads decoder_sparse_step and mlp_only_layers, which specify the layers of a Qwen MoE model that have no experts.
absl::Status ReadPlainLayers(const base::json::value& json, ExpertsConfig* experts);
void WritePlainLayers(const ExpertsConfig& experts, base::json::object* json);

// Adds a router, its experts, and the shared expert, as configured.
void AddExperts(const ModelConfig& config, const std::string& prefix, const ExpertNames& names, LayerSpec* layer);

// Returns a Llama layer with experts that have these names.
LayerSpec ExpertLayer(const ModelConfig& config, int64_t index, const ExpertNames& names);

// Returns a Llama layer, with experts (kMlpExperts) if the configuration has them for this layer.
LayerSpec ExpertLayer(const ModelConfig& config, int64_t index);

// Returns a Llama layer: norm, attention, norm, gated feed-forward.
LayerSpec DenseLayer(const ModelConfig& config, int64_t index);

}  // namespace ingot::model
