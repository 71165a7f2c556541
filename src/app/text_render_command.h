// `ingot text render --tokenizer DIR`: a model folder's chat template, for comparison with apply_chat_template.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

// What one line of input gives. `tokenizer_dir`: a folder with tokenizer.json and a chat template (chat_template.jinja,
// or in tokenizer_config.json).
//
// The input is an object: `messages`, `tools`, `add_generation_prompt` (default false) and any other template
// variables. They reach the template as they are, as with jinja2 itself; with `like_transformers` the messages are
// first prepared as newer versions of transformers do (fields that are null are left out, reasoning goes by all its
// names). The result is {"text": the rendered text, "ids": its token ids}. Special tokens in the text of messages and
// tools are ordinary text in `ids`, those that the template writes are recognised, none are added. INVALID_ARGUMENT:
// the input is no such object, or the template refuses it.
absl::StatusOr<std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>> MakeTextRender(
    const std::string& tokenizer_dir, bool like_transformers);

}  // namespace ingot::app
