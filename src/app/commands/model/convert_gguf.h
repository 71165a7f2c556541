// `ingot model convert`: a GGUF file to a model folder.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Writes config.json, model.safetensors, tokenizer.json, tokenizer_config.json and the chat templates to the folder
// `out`, which it makes. config.json is written last and marks the folder complete. `dtype` of the weights is fp32,
// which keeps every value exactly, or bf16. Nothing is written before the whole file has been checked.
//
// Returns the folder, the family, the number of parameters, and the number of tensors of each type in the file.
// ALREADY_EXISTS: the folder has a model. Other errors are those of gguf/file.h, model/from_gguf.h and
// text/tokenizer/gguf_tokenizer.h.
absl::StatusOr<base::json::value> ConvertGguf(const std::string& file, const std::string& out,
                                              const std::string& dtype);

}  // namespace ingot::app
