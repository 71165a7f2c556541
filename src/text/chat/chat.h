// Conversations: messages to prompt ids by a chat template, and sampled ids back to messages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/chat/concession.h"
#include "text/message.h"
#include "text/tokenizer/id_bound.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

class OutputFormat;

// INVALID_ARGUMENT names the first message with media: no format here renders media.
absl::Status CheckTextAlone(std::span<const Message> messages);

struct Conversation {
  std::vector<Message> messages;
  std::vector<base::json::value> tools;  // in OpenAI's form: {"type":"function","function":{...}}
  // Variables of the template besides messages and tools: enable_thinking, reasoning_effort, documents ...
  base::json::object template_variables = {};
  // The last message is an answer that the client began: the model continues after its content (continue_final_message
  // of transformers and vLLM). Only prompts read this. REQUIRES: it is the assistant's, has content and no calls.
  bool ends_begun = false;
};

// A prompt's ids, cut where each message begins. Ids never span two messages, nor an assistant's header and its sampled
// ids: the tokenizer sees a border there, as it does when the model continues the prompt.
struct RenderedPrompt {
  std::vector<int32_t> ids;
  // ids[0, message_ends[i]) render messages [0, i]. One entry per message; the generation prompt follows the last.
  std::vector<size_t> message_ends;
  // Per message, the range [first, last) of ids that an assistant would have sampled: content, tool calls, end of turn.
  // Supervised training learns these ids. Empty for other roles.
  std::vector<std::pair<size_t, size_t>> sampled_ranges;
  // The part of the answer that the generation prompt contains, such as "<think>\n" (OutputFormat::PrefillOf). Empty
  // without a generation prompt. In a begun answer one letter stands for its whole content, which could otherwise forge
  // delimiters.
  std::string prefill = {};
  // Key of the rendered text (text_key.h). Empty for formats whose text depends only on role, content, reasoning, calls
  // and tools.
  std::string text_key = {};
  // The changes without which the template rejects the conversation.
  Concessions concessions = {};
};

// One assistant message as the model would have sampled it: rendered as the last message of its conversation. A message
// whose calls were split (Concession::kOneCall) is several turns.
struct RenderedTurn {
  size_t message = 0;
  Concessions concessions = {};
  // The number of leading ids that this turn shares with the previous turn, counted over context and sampled ids.
  size_t shared = 0;
  std::vector<int32_t> context;  // ids before the message, without the shared ones
  std::vector<int32_t> sampled;  // the ids of RenderedPrompt::sampled_ranges
};

// The condition that RenderTail puts on earlier turns.
enum class EarlierTurns {
  kAsTemplate,  // the template must still write them as they were sampled
  kAsSampled,   // they stay as they were sampled, whatever the template writes now
};

struct TailOptions {
  EarlierTurns earlier = EarlierTurns::kAsTemplate;
  // RenderedPrompt::text_key of the prompt that the turn was sampled from; the template must still write that text.
  // Empty: not checked.
  std::string_view sampled_from = {};
  // The client continued the turn with this text: the content of its message ends with it. It begins the tail.
  std::string_view following = {};
  size_t most_ids = kAnyNumberOfIds;  // of the tail
};

// The ids after a sampled turn. The other fields are RenderedPrompt's, for the whole conversation.
struct RenderedTail {
  std::vector<int32_t> ids;
  std::string prefill = {};
  std::string text_key = {};
  Concessions concessions = {};
};

// A template with its output format. Immutable, thread safe.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // Message text is encoded as ordinary text, never as special tokens. If the template rejects a conversation, Render
  // makes the fewest concessions with which the template accepts it. INVALID_ARGUMENT names the message that cannot be
  // rendered: the template rejects it with every concession. TooManyIds (id_bound.h): the text surely has more than
  // `most_ids`, and was not encoded. A prompt that is only a little longer is encoded and returned; so is a tail.
  // With `add_generation_prompt`, a conversation that ends with a begun answer ends after that answer's content.
  virtual absl::StatusOr<RenderedPrompt> Render(const Conversation& conversation, bool add_generation_prompt,
                                                size_t most_ids = kAnyNumberOfIds) const = 0;
  // The assistant messages from `first_message` on, in order. Each turn is rendered as the last message of its
  // conversation, since a template may write a turn differently once more messages follow (it drops thoughts). Ids that
  // two neighboring turns share are stored once. INVALID_ARGUMENT names the message.
  virtual absl::StatusOr<std::vector<RenderedTurn>> RenderTurns(const Conversation& conversation,
                                                                size_t first_message) const = 0;
  // The tail of a splice: the ids after the sampled ids `turn` that render messages [first_new, end) and, if no begun
  // answer ends them, the generation prompt. A truncated `turn` may lack its end-of-turn id.
  //
  // REQUIRES: message first_new - 1 is the assistant's; `turn` are its ids, and its fields say the same, reasoning
  // included. With options.behind `turn` has no end-of-turn id.
  //
  // Under kAsTemplate the template must write the same text before the turn as when the turn was sampled. The turn must
  // follow byte for byte, or as the template wrote it when it was the last message, with a thought exactly where the
  // model sampled a thought. Otherwise:
  //   FAILED_PRECONDITION: the template leaves out reasoning of this or an earlier turn, or an empty thought's marks
  //   ABORTED:             the template writes other text, or `sampled_from` shows that it wrote other text
  // Under kAsSampled only the border between the turn and its tail must be found. TooManyIds as from Render.
  //
  // A turn that is itself the begun answer (Conversation::ends_begun) has no end-of-turn id. Its tail is options.behind.
  virtual absl::StatusOr<RenderedTail> RenderTail(const Conversation& conversation, size_t first_new,
                                                  std::span<const int32_t> turn,
                                                  const TailOptions& options = {}) const = 0;
  // The output format for this tokenizer. Delimiters that are tokens of it count as tokens only.
  virtual const std::shared_ptr<const OutputFormat>& output() const = 0;
  // False: this template variable does not change any rendering.
  virtual bool ReadsVariable(std::string_view name) const = 0;
  // Ids that end a turn. Such an id is not text if it is the last id of a turn.
  virtual const std::vector<int32_t>& end_of_turn_ids() const = 0;
  virtual const std::string& fingerprint() const = 0;

  // The strings before and after reasoning, and between reasoning and content. Empty: the format has no reasoning.
  struct ReasoningSyntax {
    std::string begin, end, after;
  };
  virtual ReasoningSyntax SyntaxOfReasoning() const = 0;
};

// A built-in format: "hermes" (ChatML turns, <tool_call>{json}</tool_call>, worded as Qwen 2.5 and 3 know it) or
// "compact" (the same with a minimal list of tools, for tiny models). It keeps reasoning only in assistant messages
// after the last user message, as Qwen's template does. The system message lists the tools; if the conversation has no
// system message, an empty one is added. `model_ends`: more ids that end the model's turns. NOT_FOUND lists the known
// formats; INVALID_ARGUMENT names the turn token that the tokenizer lacks.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeChatFormat(const std::string& name,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 std::span<const int32_t> model_ends = {});

// The chat format of a model folder: its template (chat_template.jinja, or chat_template in tokenizer_config.json) with
// the named output format (FindOutputFormat). An empty name selects the output format whose calls the template writes,
// or "plain" if it writes none. NOT_FOUND: no template or no such output format. INVALID_ARGUMENT names the fault.
// `template_file`: a file whose template replaces the folder's; empty = the folder's own.
//
// The text is exactly that of Hugging Face's apply_chat_template (text/jinja/template.h). The ids are Hugging Face's
// ids of that text, with two differences:
//   1. Text of a conversation never becomes a token that the template writes (a special token, or an added token in the
//      template's source). The engine marks every byte from outside, so this holds however the template cuts or prints
//      it. Only text that spells such a token is encoded differently.
//   2. Render cuts ids at the borders that RenderedPrompt names.
// If apply_chat_template would fail for a conversation, it is rendered with concessions (fitted_conversation.h). So is
// a conversation with several system messages if the template leaves one out.
absl::StatusOr<std::shared_ptr<const ChatFormat>> LoadChatFormat(const std::string& model_dir,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 const std::string& output_format,
                                                                 const std::string& template_file = "");

// One message or conversation from and to OpenAI's JSON. Role `developer` is read as system. Content may be null, a
// string or text parts; arguments may be a string or an object; unknown fields are kept. INVALID_ARGUMENT names the
// message and its fault.
absl::StatusOr<Message> MessageFromJson(const base::json::value& json);
base::json::value MessageToJson(const Message& message);
// {"messages": [...], "tools": [...], "chat_template_kwargs": {...}}
absl::StatusOr<Conversation> ConversationFromJson(const base::json::value& json);

}  // namespace ingot::text
