// The tokenizer and chat format of a run or model folder, and the files that carry them with every checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "app/run_config.h"
#include "base/status.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace ingot::app {

// A chat format is named by the model's own template ("template", or "template:NAME" with the output format NAME), or
// is one of the built-in ones (text/chat.h). A folder without ingot.json that has a template of its own uses it.
struct TextParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  // By plain file name: tokenizer.json, ingot.json, which names the chat format, and what its template is read from.
  std::map<std::string, std::string> files;
};

absl::StatusOr<TextParts> MakeTextParts(const ModelOptions& options);

// Of a model folder; `chat_format` empty: what its ingot.json says, otherwise its own template, or hermes.
absl::StatusOr<TextParts> LoadTextParts(const std::string& model_dir, const std::string& chat_format);

}  // namespace ingot::app
