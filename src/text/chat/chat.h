// Renders conversations to prompt ids with a chat template, and parses sampled ids back into messages.
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

// Returns INVALID_ARGUMENT, with the first message that has media, because none of these formats can render media.
absl::Status CheckTextAlone(std::span<const Message> messages);

// Returns INVALID_ARGUMENT if messages[first_new - 1] is not an assistant message, and so cannot be a sampled turn, or
// if a message has media.
absl::Status CheckTail(std::span<const Message> messages, size_t first_new);

struct Conversation {
  std::vector<Message> messages;
  std::vector<base::json::value> tools;  // in OpenAI's format: {"type":"function","function":{...}}
  // Template variables besides messages and tools, such as enable_thinking, reasoning_effort, and documents.
  base::json::object template_variables = {};
  // True = the last message is an answer that the client started and the model continues (continue_final_message in
  // transformers and vLLM). Used only for prompts. REQUIRES: the message has role assistant, content, and no calls.
  bool ends_begun = false;
};

// The ids of a prompt, split where each message begins. An id never spans two messages, or an assistant's header and
// its sampled ids. These are also boundaries when the model continues a prompt.
struct RenderedPrompt {
  std::vector<int32_t> ids;
  // ids[0, message_ends[i]) contain messages [0, i]. One entry per message. The generation prompt follows the last one.
  std::vector<size_t> message_ends;
  // For each message, the range [first, last) of ids that an assistant would have sampled: content, tool calls, end of
  // turn. Supervised training trains on these ids. Empty for other roles.
  std::vector<std::pair<size_t, size_t>> sampled_ranges;
  // The start of the answer that is part of the generation prompt, such as "<think>\n" (OutputFormat::PrefillOf). Empty
  // if there is no generation prompt. If the client started the answer, a single letter replaces its content, which
  // could otherwise fake delimiters.
  std::string prefill = {};
  // Key of the rendered text (text_key.h). Empty for formats where the text depends only on role, content, reasoning,
  // calls, and tools.
  std::string text_key = {};
  // Changes that the template needed to accept the conversation.
  Concessions concessions = {};
};

// One assistant message as the model would have sampled it, that is, rendered as the last message of a conversation. A
// message whose calls were split (Concession::kOneCall) has several turns.
struct RenderedTurn {
  size_t message = 0;
  Concessions concessions = {};
  // Number of leading ids that this turn shares with the previous one, counted over context and sampled ids.
  size_t shared = 0;
  std::vector<int32_t> context;  // ids before the message, excluding the shared ids
  std::vector<int32_t> sampled;  // the ids in RenderedPrompt::sampled_ranges
};

// What RenderTail requires of earlier turns.
enum class EarlierTurns {
  kAsTemplate,  // the template must still render them as they were sampled
  kAsSampled,   // they are kept as sampled, regardless of how the template now renders them
};

struct TailOptions {
  EarlierTurns earlier = EarlierTurns::kAsTemplate;
  // RenderedPrompt::text_key of the prompt from which the turn was sampled. The template must still render that text.
  // Empty = not checked.
  std::string_view sampled_from = {};
  // Text that the client appended to the turn. The content of the turn's message ends with it, and the tail begins with
  // it.
  std::string_view following = {};
  size_t most_ids = kAnyNumberOfIds;  // maximum number of ids in the tail
};

// The ids after a sampled turn. The other fields are as in RenderedPrompt, for the full conversation.
struct RenderedTail {
  std::vector<int32_t> ids;
  std::string prefill = {};
  std::string text_key = {};
  Concessions concessions = {};
};

// A chat template with its output format. Immutable and thread safe.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // Renders a conversation. Message text is encoded as ordinary text, never as special tokens. If the template rejects
  // the conversation, makes as few concessions as possible. Returns INVALID_ARGUMENT, with the message, if the template
  // rejects it even with every concession. Returns TooManyIds (id_bound.h), without encoding, if the text is certain to
  // have more than `most_ids`. A prompt or tail that exceeds the limit only slightly may still be encoded and returned.
  // If `add_generation_prompt` is set and the conversation ends with a started answer, the prompt ends after that
  // answer's content.
  virtual absl::StatusOr<RenderedPrompt> Render(const Conversation& conversation, bool add_generation_prompt,
                                                size_t most_ids = kAnyNumberOfIds) const = 0;
  // Renders the assistant messages in order, starting at `first_message`. Each turn is rendered as the last message of
  // its conversation, because a template may change it when more messages follow (drop reasoning). Ids shared by
  // neighboring turns are stored once. Returns INVALID_ARGUMENT, with the message, if the template rejects it.
  virtual absl::StatusOr<std::vector<RenderedTurn>> RenderTurns(const Conversation& conversation,
                                                                size_t first_message) const = 0;
  // Renders the tail after the sampled ids `turn`: messages [first_new, end) and, unless they end with a started
  // answer, the generation prompt. A truncated `turn` may lack its end-of-turn id.
  //
  // REQUIRES: message first_new - 1 is an assistant message, `turn` has its ids, and its fields, including reasoning,
  // match them. If options.following is set, `turn` has no end-of-turn id.
  //
  // With kAsTemplate, the template must render the same text before the turn as when it was sampled. The turn itself
  // must match byte for byte, or match what the template rendered when it was the last message, with reasoning exactly
  // where the model sampled reasoning. Otherwise:
  //   FAILED_PRECONDITION: the template drops reasoning, or empty reasoning marks, from this or an earlier turn
  //   ABORTED:             the template renders different text now, or `sampled_from` does not match
  // With kAsSampled, only the boundary between the turn and its tail must be found. Returns TooManyIds under the same
  // conditions as Render.
  //
  // If the turn itself is the started answer (Conversation::ends_begun), it has no end-of-turn id, and its tail is
  // options.following.
  virtual absl::StatusOr<RenderedTail> RenderTail(const Conversation& conversation, size_t first_new,
                                                  std::span<const int32_t> turn,
                                                  const TailOptions& options = {}) const = 0;
  // Returns the output format for this tokenizer. Delimiters that are tokens of this tokenizer are recognized only as
  // tokens.
  virtual const std::shared_ptr<const OutputFormat>& output() const = 0;
  // Returns false if this template variable cannot change any rendering.
  virtual bool ReadsVariable(std::string_view name) const = 0;
  // Returns the ids that end a turn. As the last id of a turn, such an id is not text.
  virtual const std::vector<int32_t>& end_of_turn_ids() const = 0;
  virtual const std::string& fingerprint() const = 0;

  // Returns the strings before and after reasoning, and between reasoning and content. Empty = the format has no
  // reasoning.
  struct ReasoningSyntax {
    std::string begin, end, after;
  };
  virtual ReasoningSyntax SyntaxOfReasoning() const = 0;
};

// Returns a built-in format: "hermes" (ChatML turns and <tool_call>{json}</tool_call>, with the wording of Qwen 2.5 and
// 3) or "compact" (similar, but with a minimal tool list for tiny models). Like Qwen's template, it keeps reasoning
// only in assistant messages after the last user message. The system message lists the tools. If there is no system
// message, an empty one is added. `model_ends` contains additional ids that end the model's turns. Returns NOT_FOUND,
// listing the known formats, or INVALID_ARGUMENT, with the turn token that the tokenizer lacks.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeChatFormat(const std::string& name,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 std::span<const int32_t> model_ends = {});

// Loads a model folder's chat format: its template (chat_template.jinja, or chat_template in tokenizer_config.json)
// with the named output format (FindOutputFormat). If the name is empty, selects the output format whose calls the
// template writes, or "plain" if it writes none. `template_file` replaces the folder's template; empty = use the
// folder's template. Returns NOT_FOUND if there is no template or no such output format, and INVALID_ARGUMENT if a file
// is invalid.
//
// The text is identical to the output of Hugging Face's apply_chat_template (text/jinja/template.h). The ids are
// Hugging Face's ids for that text, with two differences:
//   1. Conversation text never becomes a token that the template writes (a special token, or an added token in the
//      template's source). The engine marks every untrusted byte, so this holds however the template slices or prints
//      the text. Only text that spells such a token is encoded differently.
//   2. Render splits ids at the boundaries described in RenderedPrompt.
//
// If apply_chat_template would fail for a conversation, it is rendered with concessions (fitted_conversation.h). The
// same applies if the template would omit one of several system messages.
absl::StatusOr<std::shared_ptr<const ChatFormat>> LoadChatFormat(const std::string& model_dir,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 const std::string& output_format,
                                                                 const std::string& template_file = "");

// Convert messages and conversations to and from OpenAI's JSON format. The role `developer` is read as system. Content
// may be null, a string, or text parts. Arguments may be a string or an object. Unknown fields are kept. Return
// INVALID_ARGUMENT, with the message's index and the problem, if the JSON is invalid.
absl::StatusOr<Message> MessageFromJson(const base::json::value& json);
base::json::value MessageToJson(const Message& message);
// Parses {"messages": [...], "tools": [...], "chat_template_kwargs": {...}}.
absl::StatusOr<Conversation> ConversationFromJson(const base::json::value& json);

}  // namespace ingot::text
