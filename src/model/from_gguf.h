// Reads a model from a GGUF file: its configuration, and its parameters under their Hugging Face names.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/process_memory.h"
#include "base/status.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/parameters.h"

namespace ingot::model {

// Returns the configuration described by the file's fields. Supports the architectures llama (including Mistral's
// files), qwen2, and qwen3. The head is tied unless the file has a tensor output.weight. Returns INVALID_ARGUMENT,
// naming the file and field, if a field is missing or unsupported.
absl::StatusOr<ModelConfig> ConfigFromGguf(const gguf::File& file);

// Returns the parameters of a model with that configuration, decoded and converted to `dtype`. For Llama's
// architecture, llama.cpp stores the rows of q and k in pairs. They are converted back to halves, as in Hugging Face.
// Every name and shape, and the machine's memory, is checked before a tensor is allocated. Returns INVALID_ARGUMENT,
// naming the file and tensor, if a tensor is missing or unknown or has the wrong shape. The RESOURCE_EXHAUSTED error
// gives the largest tensor and the needed and `available` bytes.
absl::StatusOr<Parameters> ParametersFromGguf(const gguf::File& file, const ModelConfig& config, at::ScalarType dtype,
                                              int64_t available = base::AvailableMemory());

}  // namespace ingot::model
