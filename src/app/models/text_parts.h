// The tokenizer and chat format of a run or model folder, and the files that carry them with every checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {

// A chat format is one of:
// - "template": the model's own template; "template:NAME": with the output format NAME;
// - the name of a built-in one (text/chat/chat.h);
// - "auto": the format of the folder's ingot.json, else the folder's template, else hermes. Random weights have hermes.
struct TextParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  // By name below a model's folder: tokenizer.json, tokenizer_config.json if there is one, ingot.json (which names the
  // chat format) and the files of its
  // template (text::ChatTemplateFiles).
  std::map<std::string, std::string> files;
};

// For a model with random weights and the byte tokenizer.
absl::StatusOr<TextParts> MakeTextParts(const std::string& chat_format);

// For a model folder; `chat_format` empty = "auto". `chat_template`: a file with a Jinja template that replaces all
// templates of the folder, also in TextParts::files; "auto" is then "template". Empty = the folder's own.
// INVALID_ARGUMENT: the file is not a template, or `chat_format` is built in and reads no template. DATA_LOSS: the
// folder records what was written (base/written_files.h), and one of its text files differs.
absl::StatusOr<TextParts> LoadTextParts(const std::string& model_dir, const std::string& chat_format,
                                        const std::string& chat_template = "");

}  // namespace ingot::app
