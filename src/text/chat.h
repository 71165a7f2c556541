// Conversations: messages to prompt ids by a chat template, and model output back to messages.
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
#include "text/tokenizer.h"

namespace ingot::text {

class OutputFormat;

struct ToolCall {
  std::string id;  // echoed by clients; not rendered by templates that do not ask for it
  std::string name;
  std::string arguments_json;  // as the model wrote it (or, from a client, as the client sent it)
  // The id that the model wrote, where its format has ids and `id` is another. Templates print it instead, here and in
  // the results that answer `id`.
  std::string written_id = {};
};

struct Message {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string reasoning;  // assistant: thinking, where the format has it
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // tool: which call it answers
  std::string name;
  base::json::object extra = {};  // further fields as the client sent them: a template may read them
};

struct Conversation {
  std::vector<Message> messages;
  std::vector<base::json::value> tools;  // in OpenAI's form: {"type":"function","function":{...}}
  // What a template may read beside messages and tools: enable_thinking, reasoning_effort, documents ...
  base::json::object template_variables = {};
};

// Prompt ids cut where message i begins; piece i belongs to message i, and the last piece is the generation prompt.
// Ids never span two messages or an assistant's header and what it said: there a tokenizer sees a border, as it does
// when the model itself goes on from the prompt.
struct RenderedPrompt {
  std::vector<int32_t> ids;
  // ids before message_ends[i] render messages [0, i]; size = number of messages.
  std::vector<size_t> message_ends;
  // Per message: [first, last) of the ids an assistant would have sampled for it (content, tool calls, end of turn);
  // empty range for other roles. What SFT trains on.
  std::vector<std::pair<size_t, size_t>> sampled_ranges;
  // What of the answer the generation prompt has written already, such as "<think>\n" (OutputFormat::PrefillOf): the
  // sampled ids go on from there. Empty without a generation prompt.
  std::string prefill = {};
  // Names the text that the template wrote (text_key.h). Empty where that says nothing that role, content, reasoning,
  // calls and tools do not say.
  std::string text_key = {};
};

// An assistant's message as it would have been sampled: in the rendering of the conversation up to it, itself included.
struct RenderedTurn {
  size_t message = 0;
  // How many of the ids before it are the first ones of the turn before's (its context, then what it sampled).
  size_t shared = 0;
  std::vector<int32_t> context;  // the other ids before it
  std::vector<int32_t> sampled;  // as RenderedPrompt::sampled_ranges says
};

// A parsed assistant turn. Text between or after tool calls joins the content; white space around them is the format's.
struct ParsedOutput {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;  // ids empty: the gateway names them
  bool malformed = false;            // a tool call was begun and is not what the format says; its text stays in the
                                     // content, or, of a call that streams (CallMode), in its arguments
};

// What RenderTail holds the earlier turns to.
enum class EarlierTurns {
  kAsTemplate,  // they must be what the template writes now that more messages follow
  kAsSampled,   // they stay as they were sampled, whatever the template makes of them now
};

struct TailOptions {
  EarlierTurns earlier = EarlierTurns::kAsTemplate;
  // RenderedPrompt::text_key of the prompt that the turn was sampled from, which the template must still write. Empty:
  // not known, not asked.
  std::string_view sampled_from = {};
};

// What follows a sampled turn. The fields are RenderedPrompt's, of the whole conversation and its generation prompt.
struct RenderedTail {
  std::vector<int32_t> ids;
  std::string prefill = {};
  std::string text_key = {};
};

// A template with its output format. Immutable and thread safe.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // INVALID_ARGUMENT names the message that cannot be rendered. Message text is always encoded as ordinary text. The
  // system message, or an empty one if there is none, names the tools. Reasoning is kept in the assistant messages
  // after the last user message and left out of earlier ones, as Qwen's template does.
  virtual absl::StatusOr<RenderedPrompt> Render(const Conversation& conversation, bool add_generation_prompt) const = 0;
  // The assistant's messages from `first_message` on, each as Render writes the conversation that ends with it, in
  // order. A template may write a turn in another way once more follows (thoughts dropped, the marks of an empty one
  // taken away): what a turn learns from is what stood there when it was the last. Ids that two turns share are made
  // once: memory grows with the ids that differ. INVALID_ARGUMENT names the message.
  virtual absl::StatusOr<std::vector<RenderedTurn>> RenderTurns(const Conversation& conversation,
                                                                size_t first_message) const = 0;
  // The ids that follow sampled ids `turn` (which may lack its end-of-turn id when it was truncated) so that rendering
  // messages [first_new, end) of the conversation continues them, including the generation prompt. Used to splice.
  // Message first_new - 1 must be the assistant's: its ids are `turn`, and its fields what `turn` says, reasoning
  // included. Under kAsTemplate, what the template writes now that the new messages follow must be what stood before
  // the turn, and the turn must be in it as it was sampled, byte for byte, or in the way in which the template wrote it
  // before, with a thought if one was sampled. FAILED_PRECONDITION: it leaves out reasoning of this turn or an earlier
  // one, if only the marks of an empty thought. ABORTED: it writes something else, also where `sampled_from` shows it.
  // Under kAsSampled only the border between the turn and what follows is looked for.
  virtual absl::StatusOr<RenderedTail> RenderTail(const Conversation& conversation, size_t first_new,
                                                  std::span<const int32_t> turn,
                                                  const TailOptions& options = {}) const = 0;
  // How sampled ids are read (OutputStream): the output format for this tokenizer, delimiters that are tokens of it
  // counting as tokens only.
  virtual const std::shared_ptr<const OutputFormat>& output() const = 0;
  // Whether rendering may depend on this template variable. Others change nothing, and need not be kept.
  virtual bool ReadsVariable(std::string_view name) const = 0;
  // With all of those that the model stops at: the last id of a turn is no text if it is one of them.
  virtual const std::vector<int32_t>& end_of_turn_ids() const = 0;
  virtual const std::string& fingerprint() const = 0;

  // What opens reasoning, what closes it, and what stands between it and the content. Empty: there is none.
  struct ReasoningSyntax {
    std::string begin, end, after;
  };
  virtual ReasoningSyntax SyntaxOfReasoning() const = 0;
};

// The formats known by name: "hermes" (ChatML turns, <tool_call>{json}</tool_call>, worded as Qwen 2.5 and 3 know it)
// and "compact" (the same with a minimal list of tools, for tiny models). `model_ends`: ids that its model ends turns
// with besides the format's. NOT_FOUND lists the known ones, INVALID_ARGUMENT names the turn token that the tokenizer
// lacks.
absl::StatusOr<std::shared_ptr<const ChatFormat>> MakeChatFormat(const std::string& name,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 std::span<const int32_t> model_ends = {});

// The chat format of a model folder: its own template (chat_template.jinja, or chat_template of tokenizer_config.json)
// with the output format of that name (FindOutputFormat); an empty name: the one whose calls the template writes, or
// "plain" if it writes none. NOT_FOUND: the folder has no template, or there is no such output format. INVALID_ARGUMENT
// names what is wrong.
//
// Text: exactly what Hugging Face's apply_chat_template renders (text/jinja/template.h). Ids: Hugging Face's of that
// text, with two differences. What came from a conversation never becomes a token that the template writes (a special
// one, or an added one whose text stands in the template): the engine marks every byte that came from outside, so this
// holds however the template cuts, trims or prints it, and only text that holds such a token's spelling is encoded
// differently. And Render cuts where RenderedPrompt says.
absl::StatusOr<std::shared_ptr<const ChatFormat>> LoadChatFormat(const std::string& model_dir,
                                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                                 const std::string& output_format);

// One message or conversation from / to OpenAI's JSON. `developer` is read as system, content may be null, a string or
// text parts; arguments may be a string or an object; other fields are kept. INVALID_ARGUMENT names the message and
// what is wrong with it.
absl::StatusOr<Message> MessageFromJson(const base::json::value& json);
base::json::value MessageToJson(const Message& message);
absl::StatusOr<Conversation> ConversationFromJson(
    const base::json::value& json);  // {"messages": [...], "tools": [...], "chat_template_kwargs": {...}}

}  // namespace ingot::text
