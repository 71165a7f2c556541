// Rows of the families' tables: the tensors that several families share.
#pragma once

#include <cstdint>
#include <string>

#include "model/layer_spec.h"

namespace ingot::model {

// "model.layers.INDEX."
std::string LayerPrefix(int64_t index);

// Grouped-query attention of layer `index`: q, k, v and o with the biases, head norms, window and sinks that the
// configuration has.
void AddAttention(const ModelConfig& config, int64_t index, LayerSpec* layer);

// gate, up and down of a gated feed-forward part, with their biases if the configuration has them.
void AddGatedFeedForward(const ModelConfig& config, const std::string& prefix, int64_t width, LayerSpec* layer);

// Norm, attention and norm: what comes before the feed-forward part of Llama's layer.
LayerSpec AttentionLayer(const ModelConfig& config, int64_t index);

// The names of a layer's experts in a checkpoint, below its prefix; "%" stands for the expert's number.
struct ExpertNames {
  const char *router, *correction_bias, *gate, *up, *down;
  const char *shared_gate = "", *shared_up = "", *shared_down = "", *shared_share = "";
};
extern const ExpertNames kMlpExperts;  // mlp.gate, mlp.experts.%.gate_proj, ...

// The keys of DeepSeek-V3 and related families: experts in groups, shared experts, dense first layers. Missing keys
// keep their values; the default is one shared expert.
absl::Status ReadGroupedExperts(const base::json::value& json, ExpertsConfig* experts);

// decoder_sparse_step and mlp_only_layers: the layers of Qwen's mixtures that have no experts.
absl::Status ReadPlainLayers(const base::json::value& json, ExpertsConfig* experts);
void WritePlainLayers(const ExpertsConfig& experts, base::json::object* json);

// A router and its experts, and the expert that every token takes, as the configuration says.
void AddExperts(const ModelConfig& config, const std::string& prefix, const ExpertNames& names, LayerSpec* layer);

// Llama's layer, with experts where the configuration has them.
LayerSpec ExpertLayer(const ModelConfig& config, int64_t index);

// Llama's layer: norm, attention, norm, gated feed-forward.
LayerSpec DenseLayer(const ModelConfig& config, int64_t index);

}  // namespace ingot::model
