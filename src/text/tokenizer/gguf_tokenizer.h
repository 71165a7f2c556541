// Converts the tokenizer in a GGUF file to Hugging Face files.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "gguf/file.h"

namespace ingot::text {

// Returns file contents by name: tokenizer.json, tokenizer_config.json, and, if the file has them, chat_template.jinja
// and additional_chat_templates/NAME.jinja.
//
// Ids equal those of `transformers` 5 for the same file (its integrations/gguf). tokenizer.ggml.pre determines the
// split pattern for byte-level vocabularies (tokenizer.ggml.model gpt2). An unknown pattern is an error, because a
// guess could produce different ids than in training. SentencePiece vocabularies (llama) get the merges implied by
// their scores. Special and user-defined tokens are never split.
//
// Returns INVALID_ARGUMENT, with the file and the field, for an unsupported tokenizer type, lists of unequal length,
// duplicate tokens, or an id outside the vocabulary.
absl::StatusOr<std::map<std::string, std::string>> TokenizerFilesFromGguf(const gguf::File& file);

}  // namespace ingot::text
