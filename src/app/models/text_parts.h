// Loads the tokenizer and chat format for a run or model folder, and the files that every checkpoint includes for them.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "text/chat/chat.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::app {

// A chat format is one of:
// - "template": the model's own template. "template:NAME" also selects the output format NAME.
// - the name of a built-in format (text/chat/chat.h)
// - "auto": the format in the folder's ingot.json, or else the folder's template, or else hermes. With random weights,
//   it is hermes.
struct TextParts {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatFormat> format;
  // Files by their name in a model folder: tokenizer.json, tokenizer_config.json if present, ingot.json (which names
  // the chat format), and the template's files (text::ChatTemplateFiles).
  std::map<std::string, std::string> files;
};

// Creates the parts for a model with random weights and the byte tokenizer.
absl::StatusOr<TextParts> MakeTextParts(const std::string& chat_format);

// Loads the parts from a model folder. Empty `chat_format` = "auto". `chat_template` is a Jinja file that replaces all
// of the folder's templates, including in TextParts::files, and changes "auto" to "template"; empty = use the folder's
// templates. Returns INVALID_ARGUMENT if the file is not a template, or if `chat_format` is built in and does not use
// templates. Returns DATA_LOSS if the folder has checksums (base/written_files.h) and one of its text files does not
// match.
absl::StatusOr<TextParts> LoadTextParts(const std::string& model_dir, const std::string& chat_format,
                                        const std::string& chat_template = "");

}  // namespace ingot::app
