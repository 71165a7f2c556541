// A model from a GGUF file: its configuration and its parameters under their Hugging Face names.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/process_memory.h"
#include "base/status.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/parameters.h"

namespace ingot::model {

// The configuration that the file's fields describe. Architectures llama (Mistral's files among them), qwen2 and qwen3.
// The head is tied unless the file has a tensor output.weight. INVALID_ARGUMENT names the file and the missing or
// unsupported field.
absl::StatusOr<ModelConfig> ConfigFromGguf(const gguf::File& file);

// The parameters of a model of that configuration, decoded and converted to `dtype`. llama.cpp stores the rows of q and
// k of Llama's architecture in pairs; here they are in halves again, as Hugging Face has them. Every name and shape,
// and the machine's memory, is checked before a tensor is allocated. INVALID_ARGUMENT names the file and the first
// tensor that is missing, unknown or of the wrong shape; RESOURCE_EXHAUSTED names the largest tensor, and the needed
// and the `available` bytes.
absl::StatusOr<Parameters> ParametersFromGguf(const gguf::File& file, const ModelConfig& config, at::ScalarType dtype,
                                              int64_t available = base::AvailableMemory());

}  // namespace ingot::model
