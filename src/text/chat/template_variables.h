// Checks and adds the template variables that apply to all conversations in a run.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "text/chat/chat.h"

namespace ingot::text {

// Returns INVALID_ARGUMENT, naming the first variable that cannot be set for all conversations: the name is not a
// variable name or is set by the renderer (messages, tools, special tokens, and so on), or the value is not a bool,
// number, or string.
absl::Status CheckTemplateVariables(const base::json::object& variables);

// Adds the variables that the conversation does not already set.
void AddTemplateVariables(const base::json::object& variables, Conversation& conversation);

}  // namespace ingot::text
