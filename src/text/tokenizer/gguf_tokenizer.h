// The tokenizer that a GGUF file describes, as the files of a Hugging Face folder.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "gguf/file.h"

namespace ingot::text {

// File names and contents: tokenizer.json, tokenizer_config.json and, if the file has them, chat_template.jinja and
// additional_chat_templates/NAME.jinja.
//
// Ids equal the ids of `transformers` 5 for the same file (its integrations/gguf). The pattern of tokenizer.ggml.pre
// splits byte-level vocabularies (tokenizer.ggml.model gpt2). An unknown pattern is an error, because a guess would
// give other ids than the model was trained with. SentencePiece vocabularies (llama) get the merges that their scores
// imply. Special and user-defined tokens are whole.
//
// INVALID_ARGUMENT names the file and the field: an unsupported kind of tokenizer, lists of unequal length, a
// token twice, an id beyond the vocabulary.
absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const gguf::File& file);

}  // namespace ingot::text
