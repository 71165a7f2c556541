// `ingot model convert`: a GGUF file to a model folder.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Writes config.json, model.safetensors, tokenizer.json, tokenizer_config.json and chat_template.jinja to the folder
// `out`, which it makes; config.json comes last and completes it. `dtype` of the weights: fp32, in which every value of
// the file is exact, or bf16. Nothing is written before the whole file has been checked.
//
// Returns the folder, the family, the number of parameters and of tensors by type of the file. ALREADY_EXISTS: the folder
// has a model. Other errors are those of gguf/file.h, model/from_gguf.h and text/tokenizer/gguf_tokenizer.h.
absl::StatusOr<base::json::value> ConvertGguf(const std::string& file, const std::string& out,
                                              const std::string& dtype);

}  // namespace ingot::app
