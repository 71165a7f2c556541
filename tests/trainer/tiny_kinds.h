// More kinds of models, as small as the dense one of tiny_model.h.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tiny_model.h"

namespace ingot::trainer {

// Experts whose routers have a bias that chooses.
inline model::ModelConfig RoutedConfig() {
  auto config = TinyConfig();
  config.model_type = "minimax_m2";
  config.tie_word_embeddings = false;
  config.qk_norm_whole = true;
  config.experts.count = 5;
  config.experts.per_token = 2;
  config.experts.width = 24;
  config.experts.normalize = true;
  config.experts.scoring = "sigmoid";
  config.experts.correction_bias = true;
  return config;
}

// Two recurrent layers around one that attends.
inline model::ModelConfig HybridConfig() {
  auto config = TinyConfig();
  config.model_type = "qwen3_next";
  config.tie_word_embeddings = false;
  config.attention_gate = config.centred_norms = true;
  config.rotary_dim = config.head_dim / 2;
  config.num_hidden_layers = 3;
  config.experts = {
      .count = 4, .per_token = 2, .width = 12, .shared_width = 20, .shared_gate = true, .normalize = true};
  config.recurrent = {
      .key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 10, .kernel = 4, .layers = {true, false, true}};
  return config;
}

// Adapters on attention and on experts over a frozen base.
inline model::ModelConfig AdaptedConfig() {
  auto config = RoutedConfig();
  config.lora = {.rank = 2, .alpha = 4, .targets = {"experts.w1", "experts.w2", "q_proj", "v_proj"}};
  return config;
}

struct TinyKind {
  std::string name;
  model::ModelConfig config;
  double expert_bias_rate = 0;
};

inline std::vector<TinyKind> TinyKinds() {
  return {{"Routed", RoutedConfig(), 0.05}, {"Hybrid", HybridConfig()}, {"Adapted", AdaptedConfig()}};
}

inline void PrintTo(const TinyKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace ingot::trainer
