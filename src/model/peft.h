// Adapters in PEFT's format (https://github.com/huggingface/peft): a folder with adapter_config.json and
// adapter_model.safetensors. Supports only low-rank adapters, without dropout, biases, or other trained modules.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"

namespace ingot::model {

struct AdapterFolder {
  LoraConfig lora;
  std::map<std::string, at::Tensor> tensors;  // by name in the adapted model's spec
};

// Returns INVALID_ARGUMENT, with the key or tensor, for other types of adapters, an adapter that changed its base at
// initialization, rank 0, or an adapter for a base other than `base`. Ignores the adapters of `base`. A key that
// changes the computation is never silently ignored.
absl::StatusOr<AdapterFolder> LoadAdapter(const std::string& dir, const ModelConfig& base);

// Writes the model's adapters. `base_name`, the base's folder or name, is informational. REQUIRES: the model has
// adapters.
absl::Status SaveAdapter(const std::string& dir, const ModelConfig& config, const Parameters& parameters,
                         const std::string& base_name);

// Adds the adapters that `lora` specifies to a model without adapters. A is initialized uniformly and B to zero, so the
// model's results do not change. The adapters have the type and device of the embedding.
absl::Status AddAdapters(const LoraConfig& lora, uint64_t seed, ModelFolder* model);
// Same as above, but with the adapters in a folder.
absl::Status AddAdapters(const std::string& dir, ModelFolder* model);

// Replaces W with W + alpha / rank * B A, summed in fp32 (fp64) and rounded to W's type, and removes the adapters. Does
// nothing for a model without adapters.
void FoldAdapters(ModelFolder* model);

// Sets `a` to the mean of two models with the same shape, in place (long2short in Kimi k1.5, arXiv 2501.12599, section
// 2.4). Returns INVALID_ARGUMENT, naming the tensor, and leaves `a` unchanged if `b` lacks one.
absl::Status AverageInto(Parameters* a, const Parameters& b);

}  // namespace ingot::model
