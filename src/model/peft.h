// Adapters as PEFT writes them (https://github.com/huggingface/peft): a folder with adapter_config.json and
// adapter_model.safetensors. Only low-rank adapters, without dropout, biases or other trained modules.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"

namespace ingot::model {

struct AdapterFolder {
  LoraConfig lora;
  std::map<std::string, at::Tensor> tensors;  // under the names of the adapted model's table
};

// INVALID_ARGUMENT names the key or the tensor: another kind of adapter, an adapter that changed its base at the start,
// rank 0, or an adapter for another base than `base`. Adapters of `base` are ignored. No key is silently ignored if it
// changes the computation.
absl::StatusOr<AdapterFolder> LoadAdapter(const std::string& dir, const ModelConfig& base);

// Writes the adapters of a model that has some. `base_name`: the base's folder or name, for readers.
absl::Status SaveAdapter(const std::string& dir, const ModelConfig& config, const Parameters& parameters,
                         const std::string& base_name);

// Gives a model without adapters the adapters of `lora`, with initial values: A uniform, B zero, so that the model
// computes as before. In the type and on the device of the embedding.
absl::Status AddAdapters(const LoraConfig& lora, uint64_t seed, ModelFolder* model);
// The same with the adapters of a folder.
absl::Status AddAdapters(const std::string& dir, ModelFolder* model);

// W + alpha / rank * B A, summed in fp32 (fp64) and rounded to W's type; the model then has no adapters. A model
// without adapters stays.
void FoldAdapters(ModelFolder* model);

// Makes `a` the mean of two models of one shape (long2short of Kimi k1.5, arXiv 2501.12599, section 2.4), in its own
// memory. INVALID_ARGUMENT names a tensor that `b` lacks; `a` is then unchanged.
absl::Status AverageInto(Parameters* a, const Parameters& b);

}  // namespace ingot::model
