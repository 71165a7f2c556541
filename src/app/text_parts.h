// The tokenizer and chat format of a run or model folder, and the files that carry them with every checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace ingot::app {

// A chat format is the model's own template ("template", or "template:NAME" with the output format NAME), one of the
// built-in ones by name (text/chat.h), or "auto": what the folder's ingot.json says, otherwise its own template if it
// has one, otherwise hermes, which is also that of a model with random weights.
struct TextParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  // By plain file name: tokenizer.json, ingot.json, which names the chat format, and what its template is read from.
  std::map<std::string, std::string> files;
};

// Of a model with random weights and the byte tokenizer.
absl::StatusOr<TextParts> MakeTextParts(const std::string& chat_format);

// Of a model folder; `chat_format` empty is "auto".
absl::StatusOr<TextParts> LoadTextParts(const std::string& model_dir, const std::string& chat_format);

}  // namespace ingot::app
