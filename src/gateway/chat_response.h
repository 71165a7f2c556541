// The OpenAI dialect's replies. Pure: what a call is, to JSON text.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "gateway/generation.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace ingot::gateway {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// "stop", "length" or "tool_calls".
std::string FinishReasonText(v1::FinishReason finish, bool has_tool_calls);

// choices[].logprobs of the ids [first, last) of a generation. A log-prob is that of the temperature-scaled,
// untruncated policy.
base::json::value LogprobsJson(const Generation& generation, int first, int last, const text::Tokenizer& tokenizer);

// Renders the replies of one call.
class ChatRenderer {
 public:
  ChatRenderer(std::string id, int64_t created_unix_s, std::string model)
      : id_(std::move(id)), created_(created_unix_s), model_(std::move(model)) {}

  // choices[0] of a whole completion. Fields a caller wants beyond are added to the result before Completion.
  static base::json::object Choice(const text::Message& message, const std::string& finish_reason,
                                   base::json::value logprobs);
  base::json::object Completion(base::json::object choice, const Usage& usage) const;

  // One chunk of a stream. `finish_reason` empty: null. With `usage_asked`, every chunk carries "usage": null.
  base::json::object Chunk(base::json::object delta, const std::string& finish_reason, base::json::value logprobs,
                           bool usage_asked) const;
  base::json::object UsageChunk(const Usage& usage) const;

 private:
  base::json::object Head(const char* object) const;

  std::string id_;
  int64_t created_;
  std::string model_;
};

}  // namespace ingot::gateway
