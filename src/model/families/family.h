// A Family is one Hugging Face architecture: the keys of its config.json and the table of its layers. Each family is
// one file of this folder and one row of families.cc.
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

// Which layers attend through a window, if the file does not list them.
enum class Window : uint8_t {
  kNone,        // none, and none may
  kEveryLayer,  // all
  kSwitched,    // with use_sliding_window, those from max_window_layers on
  kPattern,     // all but every full_layer_every-th
};

struct Family {
  std::string_view model_type;
  std::string_view architecture;
  int64_t default_head_dim = 0;   // 0 = hidden_size / num_attention_heads
  bool kv_heads_required = true;  // false = num_attention_heads if the file does not say
  bool qkv_bias = false;          // always on, even if the file says otherwise
  bool reads_attention_bias = false, reads_mlp_bias = false;
  bool qk_norm = false, qk_norm_optional = false;
  bool names_plain_layers = false;  // decoder_sparse_step and mlp_only_layers
  bool tied_by_default = false;
  double default_rope_theta = 10000;
  double default_local_rope_theta = 0;  // > 0: windowed layers have their own RoPE
  bool partial_rotary = false;          // RoPE may turn only a part of a head
  double rotary_share = 1;              // the part of a head that it turns if the file does not say
  Window window = Window::kNone;
  int64_t full_layer_every = 0;
  int64_t default_window = 0;      // 0 = 4096
  std::string_view own_code = "";  // module of a folder's auto_map that computes the same; empty = none is accepted
  bool skips_next_layers = false;  // the file may have layers after the last one, which predict later tokens
  std::string_view skipped_prefix = "";  // of the file's tensors that belong to no layer; empty = none
  bool lists_layers = false;             // layer_types is read by `read`: it names more than windows
  std::string_view activation_key = "hidden_act", activation = "silu";
  bool out_bias = true;          // attention_bias includes o_proj
  bool always_out_bias = false;  // as qkv_bias
  // The table of layer `index`.
  LayerSpec (*layer)(const ModelConfig& config, int64_t index) = nullptr;
  // Each may be null. `read` fills in the family's own keys and rejects unsupported values; `write` adds them to a
  // config.json; `check` validates a configuration that code made.
  absl::Status (*read)(const base::json::value& json, ModelConfig* config) = nullptr;
  void (*write)(const ModelConfig& config, base::json::object* json) = nullptr;
  absl::Status (*check)(const ModelConfig& config) = nullptr;
  // From the tensors of a file to the table's tensors, and back; null = they are the same.
  absl::Status (*from_file)(const ModelConfig& config, std::map<std::string, at::Tensor>* tensors) = nullptr;
  void (*to_file)(const ModelConfig& config, std::map<std::string, at::Tensor>* tensors) = nullptr;
};

// Null = no family has this model_type.
const Family* FindFamily(std::string_view model_type);
// "llama, mistral, ..." for messages.
std::string FamilyNames();

}  // namespace ingot::model
