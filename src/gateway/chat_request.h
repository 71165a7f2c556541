// The gateway's own form of a chat request, and the OpenAI dialect that is parsed into it. Pure functions: a body that
// is not what the dialect says gives an error that names the field, never a crash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/chat.h"

namespace ingot::gateway {

enum class ToolChoice {
  kAuto,
  kNone,      // tools are rendered (the prompt stays a continuation), but what looks like a call is delivered as text
  kRequired,  // and a named function: accepted and counted, but sampling is not constrained: the model may answer in
              // text
};

struct ChatRequest {
  std::string model;  // as asked; empty: none was
  text::Conversation conversation;
  bool stream = false;
  bool include_usage = false;     // a usage chunk ends the stream
  bool return_token_ids = false;  // extension: prompt_token_ids and token_ids in the reply
  int64_t max_tokens = 0;         // 0: not asked
  std::optional<double> temperature, top_p, min_p;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool logprobs = false;
  int32_t top_logprobs = 0;
  ToolChoice tool_choice = ToolChoice::kAuto;
  bool penalty = false;  // a penalty or bias was asked for, which the engine does not have
  std::string branch;    // metadata.branch: names a sub-agent's thread

  bool tools_enabled() const { return !conversation.tools.empty() && tool_choice != ToolChoice::kNone; }
};

// Body of POST /v1/chat/completions. Fields it does not know are ignored.
absl::StatusOr<ChatRequest> ParseChatCompletions(std::string_view body);

}  // namespace ingot::gateway
