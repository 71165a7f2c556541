// A Family describes one Hugging Face architecture: its config.json keys and its layer table. Each family has one file
// in this directory and one row in families.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "model/config.h"
#include "model/layer_spec.h"

namespace ingot::model {

// Which layers use a window if the file does not list them.
enum class Window : uint8_t {
  kNone,        // none; the file must not specify one
  kEveryLayer,  // all
  kSwitched,    // layers max_window_layers and above, if use_sliding_window is set
  kPattern,     // all except every full_layer_every-th
};

// Names of a family's prediction layers (mtp_head.h). In a name, "%" stands for the layer's index from 0, and "#" for
// num_hidden_layers + index.
struct MtpNames {
  std::string_view count;    // the key in config.json with the number of layers
  std::string_view tensors;  // the prefix of all their tensors
  std::string_view layer;    // the prefix of a decoder layer's tensors
  std::string_view embedding_norm, state_norm, projection, norm;
  std::string_view embedding_copy = "", head_copy = "";  // copies of the policy's tensors; empty = none
};

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  int64_t default_head_dim = 0;   // 0 = hidden_size / num_attention_heads
  bool kv_heads_required = true;  // false = defaults to num_attention_heads
  bool qkv_bias = false;          // always on, regardless of the file
  bool reads_attention_bias = false, reads_mlp_bias = false;
  bool qk_norm = false, qk_norm_optional = false;
  bool names_plain_layers = false;  // has decoder_sparse_step and mlp_only_layers
  bool tied_by_default = false;
  double default_rope_theta = 10000;
  double default_local_rope_theta = 0;  // > 0: windowed layers have their own RoPE
  bool partial_rotary = false;          // RoPE may rotate only part of a head
  double rotary_share = 1;              // default for the rotated fraction of a head
  Window window = Window::kNone;
  int64_t full_layer_every = 0;
  int64_t default_window = 0;      // 0 = 4096
  std::string_view own_code = "";  // module in auto_map that computes the same model; empty = none is accepted
  const MtpNames* mtp = nullptr;   // null = the family has no prediction layers
  bool lists_layers = false;       // `read` reads layer_types, because it specifies more than windows
  std::string_view activation_key = "hidden_act", activation = "silu";
  bool out_bias = true;          // attention_bias includes o_proj
  bool always_out_bias = false;  // always on, regardless of the file
  // Returns the spec for layer `index`.
  LayerSpec (*layer)(const ModelConfig& config, int64_t index) = nullptr;
  // Each may be null. `read` sets the family-specific fields and rejects unsupported values. `write` adds the family's
  // keys to a config.json. `check` validates a configuration that was built in code.
  absl::Status (*read)(const base::json::value& json, ModelConfig* config) = nullptr;
  void (*write)(const ModelConfig& config, base::json::object* json) = nullptr;
  absl::Status (*check)(const ModelConfig& config) = nullptr;
  // Convert a file's tensors to the spec's tensors and back. Null = they are the same.
  absl::Status (*from_file)(const ModelConfig& config, std::map<std::string, at::Tensor>* tensors) = nullptr;
  void (*to_file)(const ModelConfig& config, std::map<std::string, at::Tensor>* tensors) = nullptr;
};

// Returns the family with this model_type, or null if there is none.
const Family* FindFamily(std::string_view model_type);
// Returns "llama, mistral, ..." for messages.
std::string FamilyNames();

}  // namespace ingot::model
