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

struct TextParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  // By plain file name: tokenizer.json and ingot.json, which names the chat format.
  std::map<std::string, std::string> files;
};

absl::StatusOr<TextParts> MakeTextParts(const ModelOptions& options);

// Of a model folder; `chat_format` empty: what its ingot.json says, otherwise hermes.
absl::StatusOr<TextParts> LoadTextParts(const std::string& model_dir, const std::string& chat_format);

}  // namespace ingot::app
