// `ingot model convert`: converts a GGUF file to a model folder.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Creates the folder `out` with config.json, model.safetensors, tokenizer.json, tokenizer_config.json, and the chat
// templates. config.json is written last and marks the folder as complete. `dtype` is the weights' data type: bf16, or
// fp32, which preserves every value exactly. Checks the whole file before writing anything.
//
// Returns the folder, the family, the number of parameters, and the number of tensors of each type in the file. Returns
// ALREADY_EXISTS if the folder contains a model. Other errors are from gguf/file.h, model/from_gguf.h, and
// text/tokenizer/gguf_tokenizer.h.
absl::StatusOr<base::json::value> ConvertGguf(const std::string& file, const std::string& out,
                                              const std::string& dtype);

}  // namespace ingot::app
