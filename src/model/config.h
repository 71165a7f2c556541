// ModelConfig is the shape of a decoder-only transformer, as a Hugging Face config.json describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::model {

// The scaling of RoPE's frequencies beside rope_theta (model/rope.h). Names and defaults are taken from `transformers`.
struct RopeScaling {
  std::string type = "default";  // default, linear, llama3, yarn
  double factor = 1;             // the factor by which positions are stretched, >= 1
  // llama3, yarn: original_max_position_embeddings; 0 in the file = max_position_embeddings
  int64_t original_positions = 0;
  double low_freq_factor = 0, high_freq_factor = 0;  // llama3: turns within the original context, low < high
  double beta_fast = 32, beta_slow = 1;              // yarn: the same, beta_slow < beta_fast
  std::optional<double> attention_factor;  // yarn: scale of cosines and sines; nullopt = by factor and the two mscales
  double mscale = 0, mscale_all_dim = 0;
  bool truncate = true;  // yarn: the stretch begins at a whole dimension

  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  std::string model_type = "qwen3";  // qwen2, qwen3, llama, mistral: the default of the three switches below
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // grouped-query attention: divides num_attention_heads
  int64_t head_dim = 0;             // 0 in the file = hidden_size / num_attention_heads
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // on q, k, v (qwen2), and with `attention_out_bias` on o too
  bool attention_out_bias = false;
  bool qk_norm = false;  // RMSNorm over head_dim of q and k, before RoPE (qwen3)
  std::string torch_dtype = "float32";
  int64_t bos_token_id = -1;  // -1 = none
  std::vector<int64_t> eos_token_ids;

  // INVALID_ARGUMENT names the key that is missing, ill-typed or not supported: another hidden_act or rope type,
  // sliding-window layers, an unknown architecture, modelling code in the folder. No key is silently ignored if it
  // changes the computation.
  static absl::StatusOr<ModelConfig> FromJson(const base::json::value& json);
  static absl::StatusOr<ModelConfig> FromFile(const std::string& path);
  // A config.json that `transformers` loads.
  base::json::value ToJson() const;
  absl::Status Validate() const;

  int64_t ParameterCount() const;
};

}  // namespace ingot::model
