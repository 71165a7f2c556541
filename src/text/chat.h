// Conversations: messages to prompt ids by a chat template, and model output back to messages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace ingot::text {

struct ToolCall {
  std::string id;  // echoed by clients; not rendered by templates that do not ask for it
  std::string name;
  std::string arguments_json;  // as the model wrote it (or, from a client, as the client sent it)
};

struct Message {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string reasoning;  // assistant: thinking, where the format has it
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // tool: which call it answers
  std::string name;
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<base::json::value> tools;  // OpenAI's form: {"type":"function","function":{...}}
};

// Prompt ids cut where message i begins; piece i belongs to message i, and the last piece is the generation prompt.
struct RenderedPrompt {
  std::vector<int32_t> ids;
  // ids before message_ends[i] render messages [0, i]; size = number of messages.
  std::vector<size_t> message_ends;
  // Per message: [first, last) of the ids an assistant would have sampled for it (content, tool calls, end of turn);
  // empty range for other roles. What SFT trains on.
  std::vector<std::pair<size_t, size_t>> sampled_ranges;
};

// A parsed assistant turn.
struct ParsedOutput {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;  // ids empty: the gateway names them
  bool malformed = false;            // a tool call was begun and is not what the format says; its text stays in content
};

// A template with its tool-call format. Immutable and thread safe.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // INVALID_ARGUMENT names the message that cannot be rendered.
  virtual absl::StatusOr<RenderedPrompt> Render(const Conversation& conversation, bool add_generation_prompt) const = 0;
  // The ids that follow sampled ids `turn` (which may lack its end-of-turn id when it was truncated) so that rendering
  // messages [first_new, end) of the conversation continues them, including the generation prompt. Used to splice.
  virtual absl::StatusOr<std::vector<int32_t>> RenderTail(const Conversation& conversation, size_t first_new,
                                                          std::span<const int32_t> turn) const = 0;
  // Whole output (special tokens kept, end-of-turn id stripped) to message.
  virtual ParsedOutput Parse(std::string_view output) const = 0;
  // Text that may be streamed as content now: everything before the first character that could begin a tool call.
  virtual size_t StreamableContent(std::string_view output_so_far) const = 0;
  virtual const std::vector<int32_t>& end_of_turn_ids() const = 0;
  virtual const std::string& fingerprint() const = 0;
};

// The formats known by name: "hermes" (ChatML turns, <tool_call>{json}</tool_call>). NOT_FOUND lists the known ones.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeChatFormat(const std::string& name,
                                                                 std::shared_ptr<const Tokenizer> tokenizer);

// One message or conversation from / to OpenAI's JSON.
absl::StatusOr<Message> MessageFromJson(const base::json::value& json);
base::json::value MessageToJson(const Message& message);
absl::StatusOr<Conversation> ConversationFromJson(
    const base::json::value& json);  // {"messages": [...], "tools": [...]}

}  // namespace ingot::text
