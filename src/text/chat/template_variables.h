// Template variables that hold for all conversations of a run.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "text/chat/chat.h"

namespace ingot::text {

// INVALID_ARGUMENT names the first variable that cannot be set for all conversations: its name is not a variable name,
// or the renderer sets it (messages, tools, special tokens and the like), or its value is not a bool, number or text.
absl::Status CheckTemplateVariables(const base::json::object& variables);

// Adds the variables that the conversation lacks; the conversation's own values stay.
void AddTemplateVariables(const base::json::object& variables, Conversation& conversation);

}  // namespace ingot::text
