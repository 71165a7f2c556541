// Reads conversation files for supervised training: JSONL in OpenAI format, one conversation per line.
//
//   {"messages": [{"role": "user", "content": ...}, {"role": "assistant", ...}], "tools": [...],
//    "chat_template_kwargs": {"enable_thinking": false, ...}}
//
// An assistant message may have a "weight": 0 = context only, 1 (the default) = trained on. A line may instead be a
// recorded trajectory (dataset/recorded.h) from `ingot export`, whose ids are trained on unchanged.
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
  std::optional<RecordedRow> recorded = {};  // used instead of the conversation
  std::string place = {};                    // "FILE:LINE", for errors
};

// Returns true for an assistant message with a nonzero weight.
bool IsLearnt(const text::Message& message);
// Returns INVALID_ARGUMENT, with the message, if a weight is neither 0 nor 1.
absl::Status CheckWeights(const text::Conversation& conversation);

// Reads a conversation file. Returns INVALID_ARGUMENT with the file and line if a line is not a conversation or the
// file has none.
absl::StatusOr<std::vector<SftConversation>> LoadConversations(const std::string& path,
                                                               const JsonlOptions& options = {});

}  // namespace ingot::dataset
