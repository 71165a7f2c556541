// Configures a run's model. The Bind functions declare each key with its meaning, bounds, and choices.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "model/config.h"

namespace ingot::base {
class Schema;
}

namespace ingot::app {

// Values of model.chat_format, in addition to the names of built-in formats: detect the format from the folder, or use
// the folder's template with a detected or a named output format.
inline constexpr char kAutoFormat[] = "auto";
inline constexpr char kTemplateFormat[] = "template";
inline constexpr char kTemplateFormatPrefix[] = "template:";

struct ModelOptions {
  std::string path;
  std::string tokenizer = "bytes";
  std::string chat_format = kAutoFormat;  // see text_parts.h
  std::string chat_template;
  // Shape of a qwen3 model with random weights. The tokenizer determines the vocabulary.
  int64_t hidden_size = 128;
  int64_t intermediate_size = 384;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  int64_t context_length = 2048;
  double rope_theta = 10000;
  // Rank 0 = trains all weights instead of adapters.
  model::LoraConfig lora = {
      .rank = 0, .alpha = 0, .targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}};
  double lora_dropout = 0;
  std::string lora_init = "default";

  // Returns INVALID_ARGUMENT if keys conflict.
  absl::Status Validate() const;
};

void Bind(base::Schema& schema, ModelOptions& options);
// Declares the keys in the adapter section.
void BindLora(base::Schema& schema, ModelOptions& options);

}  // namespace ingot::app
