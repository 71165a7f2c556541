// Conversation files for supervised training: JSONL in OpenAI's form, one conversation per line.
//
//   {"messages": [{"role": "user", "content": ...}, {"role": "assistant", ...}], "tools": [...],
//    "chat_template_kwargs": {"enable_thinking": false, ...}}
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "text/chat.h"

namespace ingot::dataset {

// INVALID_ARGUMENT naming file and line for a line that is no conversation, or a file without one.
absl::StatusOr<std::vector<text::Conversation>> LoadConversations(const std::string& path,
                                                                  const JsonlOptions& options = {});

}  // namespace ingot::dataset
