// `ingot text render --tokenizer DIR`: renders a model folder's chat template, for comparison with apply_chat_template.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Returns a function that processes one line. `tokenizer_dir` contains tokenizer.json and a chat template, in
// chat_template.jinja or tokenizer_config.json.
//
// The input is an object with `messages`, `tools`, `add_generation_prompt` (default false), and any other template
// variables. The template receives them unchanged, as with jinja2. With `like_transformers`, messages are first
// prepared as in newer transformers versions: null fields are dropped, and reasoning is set under all its field names.
//
// The result is {"text": the rendered prompt, "ids": its token ids}. Special tokens inside messages and tools are
// encoded as ordinary text, and special tokens that the template writes are encoded as such. No other special tokens
// are added. Returns INVALID_ARGUMENT if the input is invalid or the template rejects it.
absl::StatusOr<std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>> MakeTextRender(
    const std::string& tokenizer_dir, bool like_transformers);

}  // namespace ingot::app
