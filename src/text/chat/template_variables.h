// Template variables that hold for all conversations of a run.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "text/chat/chat.h"

namespace ingot::text {

// INVALID_ARGUMENT names the first variable that nobody may set for all conversations: its name is no name of a variable,
// or the renderer sets it (messages, tools, special tokens and the like), or its value is no bool, number or text.
absl::Status CheckTemplateVariables(const base::json::object& variables);

// Adds the variables that the conversation lacks: its own win.
void AddTemplateVariables(const base::json::object& variables, Conversation& conversation);

}  // namespace ingot::text
