// Conversation files for supervised training: JSONL in OpenAI's form, one conversation per line.
//
//   {"messages": [{"role": "user", "content": ...}, {"role": "assistant", ...}], "tools": [...],
//    "chat_template_kwargs": {"enable_thinking": false, ...}}
//
// An assistant's message may have a "weight": 0 = context, not learned; 1 (the default) = learned. A line may be a
// recorded trajectory instead (dataset/recorded.h), as `ingot export` writes it: its ids are trained as they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "dataset/jsonl.h"
#include "dataset/recorded.h"
#include "text/chat/chat.h"

namespace ingot::dataset {

struct SftConversation {
  text::Conversation conversation = {};
  std::optional<RecordedRow> recorded = {};  // in place of the conversation
  std::string place = {};                    // "FILE:LINE", for errors
};

// True for an assistant's message whose weight is not 0.
bool IsLearnt(const text::Message& message);
// INVALID_ARGUMENT: the weight of the named message is neither 0 nor 1.
absl::Status CheckWeights(const text::Conversation& conversation);

// Reads a conversation file. INVALID_ARGUMENT names file and line: a line is not a conversation, or the file has none.
absl::StatusOr<std::vector<SftConversation>> LoadConversations(const std::string& path,
                                                               const JsonlOptions& options = {});

}  // namespace ingot::dataset
