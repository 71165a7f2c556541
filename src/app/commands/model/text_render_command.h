// `ingot text render --tokenizer DIR`: renders a model folder's chat template, for comparison with apply_chat_template.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// Makes the function from a line to its result. `tokenizer_dir`: a folder with tokenizer.json and a chat template
// (chat_template.jinja, or in tokenizer_config.json).
//
// The input is an object: `messages`, `tools`, `add_generation_prompt` (default false) and any other template
// variables. The template gets them unchanged, as with jinja2 itself. With `like_transformers` the messages are first
// prepared as newer versions of transformers do: null fields are left out, and reasoning is set under all its names.
//
// The result is {"text": the rendered text, "ids": its token ids}. In `ids` special tokens in the text of messages and
// tools are ordinary text, special tokens that the template writes are recognised, and none are added.
// INVALID_ARGUMENT: the input is not such an object, or the template rejects it.
absl::StatusOr<std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>> MakeTextRender(
    const std::string& tokenizer_dir, bool like_transformers);

}  // namespace ingot::app
