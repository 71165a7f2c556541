// Conversation files for supervised training: JSONL in OpenAI's form, one conversation per line.
//
//   {"messages": [{"role": "user", "content": ...}, {"role": "assistant", ...}], "tools": [...],
//    "chat_template_kwargs": {"enable_thinking": false, ...}}
//
// An assistant's message may have a "weight": 0 is context that is not learnt, 1 (the default) is learnt.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "text/chat.h"

namespace ingot::dataset {

struct SftConversation {
  text::Conversation conversation;
  std::string place = {};  // "FILE:LINE", for errors
};

// False: a message that is no assistant's, or has the weight 0.
bool IsLearnt(const text::Message& message);
// INVALID_ARGUMENT names the message whose weight is neither 0 nor 1.
absl::Status CheckWeights(const text::Conversation& conversation);

// INVALID_ARGUMENT naming file and line for a line that is no conversation, or a file without one.
absl::StatusOr<std::vector<SftConversation>> LoadConversations(const std::string& path,
                                                               const JsonlOptions& options = {});

}  // namespace ingot::dataset
