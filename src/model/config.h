// ModelConfig describes the shape of a decoder-only transformer, as in a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::model {

// RoPE frequency scaling, in addition to rope_theta (model/rope.h). Names and defaults are from `transformers`.
struct RopeScaling {
  std::string type = "default";  // default, linear, llama3, yarn
  double factor = 1;             // stretches positions by this factor, >= 1
  // llama3, yarn: original_max_position_embeddings. 0 in the file = max_position_embeddings.
  int64_t original_positions = 0;
  double low_freq_factor = 0, high_freq_factor = 0;  // llama3: rotations within the context, low < high
  double beta_fast = 32, beta_slow = 1;              // yarn: the same, beta_slow < beta_fast
  std::optional<double> attention_factor;  // yarn: scale of cosines and sines; nullopt = from factor and both mscales
  double mscale = 0, mscale_all_dim = 0;
  bool truncate = true;  // yarn: the scaling range is rounded to whole dimensions

  bool operator==(const RopeScaling&) const = default;
};

// A mixture of experts that replaces a layer's feed-forward block.
struct ExpertsConfig {
  int64_t count = 0;                         // 0 = the model has none
  int64_t per_token = 0;                     // routed experts per token, <= count
  int64_t width = 0;                         // width of one expert
  int64_t shared_width = 0;                  // width of the expert that every token uses; 0 = none
  bool shared_gate = false;                  // a logit per token, whose sigmoid scales that expert's result
  int64_t dense_layers = 0;                  // number of leading layers that have no experts
  int64_t layer_step = 1;                    // a layer has experts if its 1-based number is a multiple of this
  std::vector<int64_t> plain_layers = {};    // more layers without experts; 0-based, ascending
  std::string scoring = "softmax";           // softmax: over all; sigmoid: each; softmax_chosen: chosen only
  bool normalize = false;                    // the chosen experts' weights are divided by their sum
  bool correction_bias = false;              // a bias on the scores that affects only the choice, not the weights
  double scale = 1;                          // scales the routed sum
  int64_t groups = 1, groups_per_token = 1;  // only experts in the best groups may be chosen
  bool router_bias = false;                  // a bias on the logits
  bool bias = false;                         // every expert's products have biases
  double balance_coefficient = 0;            // coefficient of the load-balancing term in the file

  bool operator==(const ExpertsConfig&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). q, k, and v are computed from narrow
// vectors. RoPE rotates only part of q, and a part of k that all heads share.
struct LatentConfig {
  int64_t kv_rank = 0;                    // 0 = the model has none
  int64_t query_rank = 0;                 // 0 = q is computed directly from the row
  int64_t plain_dim = 0, rotary_dim = 0;  // per-head sizes of q and k, without and with RoPE
  int64_t value_dim = 0;                  // size per head of v
  bool interleaved = true;                // RoPE rotates adjacent pairs, not halves

  bool operator==(const LatentConfig&) const = default;
};

// Layers that use a recurrence instead of attention: Gated DeltaNet (arXiv 2412.06464).
struct RecurrentConfig {
  int64_t key_heads = 0, value_heads = 0;  // key_heads divides value_heads
  int64_t key_dim = 0, value_dim = 0;      // per head
  int64_t kernel = 0;                      // kernel size of the preceding convolution, in rows
  std::vector<bool> layers;                // per layer: true = recurrent; empty = no layer is

  bool operator==(const RecurrentConfig&) const = default;
};

// Low-rank adapters (LoRA, arXiv 2106.09685) on products of every layer: W x + alpha / rank * B (A x).
struct LoraConfig {
  int64_t rank = 0;  // 0 = none
  double alpha = 0;
  std::vector<std::string> targets;  // AdapterTarget: "q_proj", "experts.down_proj", ...; sorted

  bool operator==(const LoraConfig&) const = default;
};

struct ModelConfig {
  std::string model_type = "qwen3";  // one of model/families/
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
  bool attention_bias = false;  // on q, k, v (qwen2), and with `attention_out_bias` also on o
  bool attention_out_bias = false;
  bool mlp_bias = false;            // on gate, up, and down of a dense feed-forward block
  bool qk_norm = false;             // RMSNorm over head_dim of q and k, before RoPE (qwen3)
  std::string hidden_act = "silu";  // silu, gelu_pytorch_tanh, or clamped (gpt-oss)
  double query_scale = 0;           // scales the scores; 0 = 1/sqrt(head_dim)
  int64_t rotary_dim = 0;           // RoPE rotates only this many leading dimensions of a head; 0 = head_dim
  int64_t sliding_window = 0;       // positions that a windowed layer sees, including its own; 0 = no window
  std::vector<bool> windowed;       // per layer, whether it has a window; empty = every layer has one
  double local_rope_theta = 0;      // RoPE base of windowed layers, not stretched; 0 = same as the other layers
  bool sinks = false;               // a logit per head that is included in the attention softmax
  double attention_soft_cap = 0;    // c: a score s becomes c tanh(s / c); 0 = none
  double logit_soft_cap = 0;        // the same for the logits
  bool qk_norm_whole = false;       // qk_norm over all heads together
  bool attention_gate = false;      // AttentionSpec::gated
  bool centred_norms = false;       // norms multiply by 1 + weight, without gemma's other features
  bool gemma = false;               // norms multiply by 1 + weight, norms after both parts, scaled embeddings
  ExpertsConfig experts;
  LatentConfig latent;
  RecurrentConfig recurrent;
  LoraConfig lora;
  std::string torch_dtype = "float32";
  int64_t bos_token_id = -1;  // -1 = none
  std::vector<int64_t> eos_token_ids;

  // Returns INVALID_ARGUMENT, naming the key, if a key is missing, has the wrong type, or is not supported, such as
  // another hidden_act or rope type, sliding-window layers in a family without them, an unknown architecture, or
  // modeling code in the model folder. A key that changes the computation is never silently ignored.
  static absl::StatusOr<ModelConfig> FromJson(const base::json::value& json);
  static absl::StatusOr<ModelConfig> FromFile(const std::string& path);
  // Returns a config.json that `transformers` loads.
  base::json::value ToJson() const;
  absl::Status Validate() const;
  // Returns UNIMPLEMENTED with the family if this device has no kernels for it. `device` is a torch device name, such
  // as "cpu" or "cuda:0".
  absl::Status CheckDevice(std::string_view device) const;

  bool has_window(int64_t layer) const {
    return sliding_window > 0 && (windowed.empty() || windowed[static_cast<size_t>(layer)]);
  }
  bool centred() const { return gemma || centred_norms; }
  bool is_recurrent(int64_t layer) const {
    return layer < static_cast<int64_t>(recurrent.layers.size()) && recurrent.layers[static_cast<size_t>(layer)];
  }
  bool has_experts(int64_t layer) const;
  int64_t expert_layers_before(int64_t layer) const;  // number of earlier layers with experts
  // Returns the number of experts that a token uses, summed over all layers.
  int64_t routes_per_token() const { return expert_layers_before(num_hidden_layers) * experts.per_token; }

  int64_t ParameterCount() const;
};

}  // namespace ingot::model
