// The gateway's form of a request, into which every dialect is read. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "gateway/api/event.h"
#include "gateway/echoed_ids.h"
#include "text/chat/chat.h"

namespace ingot::gateway {

// The headers of a request. Names are compared without case.
class Headers {
 public:
  void Add(std::string_view name, std::string_view text);
  // The first header of that name; empty if there is none.
  std::string_view Get(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;  // names in lower case
};

// The value of a parameter in a URL's query, as written there. Empty = no such parameter.
std::string_view QueryValue(std::string_view query, std::string_view name);

// A request as the client sent it.
struct RawRequest {
  std::string body;
  Headers headers;
  std::string model = {};     // named by the URL, any bytes; empty = the body may name it
  std::string query = {};     // of the URL, without the question mark
  bool token_events = false;  // every event of the answer carries the tokens that it covers (gRPC)
};

// The kind under which a client declared a tool. The model knows functions only; a call goes back as its declared kind.
enum class ToolKind {
  kFunction,
  kOldFunction,  // chat completions' older form: one call, in the message's function_call
  kCustom,       // free text: for the model a function of one string, "input"
  // Of the Responses API (client_tools.h):
  kLocalShell,
  kShell,
  kApplyPatch,
};

struct Tool {
  ToolKind kind = ToolKind::kFunction;
  std::string name;        // as the model knows it
  std::string wire_name;   // as the client knows it
  std::string name_space;  // Responses API: the tool's namespace; empty = none
  bool strict = false;     // arguments must satisfy the whole schema
};

struct ToolChoice {
  enum class Mode {
    kAuto,
    kNone,      // tools are rendered, so the prompt stays a continuation, but calls are delivered as text
    kRequired,  // sampling is constrained to calls
  };
  Mode mode = Mode::kAuto;
  std::vector<std::string> names;  // tools that may be called, as the model knows them; empty = all
};

// The fields of a request that its reply repeats.
struct RepeatedFields {
  base::json::object json;
  std::string text;  // the printed members of `json`, without braces
};

struct GatewayRequest {
  std::string model;          // empty = none
  std::string branch;         // the sub-agent's thread; empty = the main thread
  std::string parent_branch;  // the thread that started this one; empty = not said
  std::string session;        // of all threads of one client, as far as it names them; empty = it names none
  std::string role;           // role within the episode, such as a player; empty = none

  text::Conversation conversation;
  EchoedIds echoed_ids;  // one entry per message
  // Responses API: a part of an earlier answer that the client names instead of sending it. The conversation lacks the
  // part until ResolveReferences (item_references.h).
  struct ItemReference {
    size_t message = 0;  // index of the message to which the part belongs
    PartKind kind = PartKind::kContent;
    size_t at = 0;        // the part's place: bytes of the message's text, or tool calls, before it
    std::string call_id;  // of the earlier answer
    size_t index = 0;     // of a tool call within the earlier answer
    std::string path;     // of the reference in the request, for errors
  };
  std::vector<ItemReference> references;
  // A prompt that is not rendered and is answered separately. If there are any, the conversation is ignored.
  struct RawPrompt {
    std::string text;          // encoded with special tokens recognized; ignored if there are ids
    std::vector<int32_t> ids;  // empty = the prompt is `text`
  };
  std::vector<RawPrompt> raw_prompts;
  const char* prompt_field = "messages";  // the dialect's field with the prompt, for errors

  std::vector<Tool> tools;  // of conversation.tools, in the same order
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;  // false: the turn ends after its first call
  // At most one of these constrains the answer: to one JSON value that the schema allows, to a text that the whole
  // expression matches (grammar/regex.h), or to one of the texts.
  std::optional<std::string> json_schema, regex;
  std::vector<std::string> choice_texts;
  std::string format_field = "response_format";   // the field with the constraint, for errors
  std::string tool_choice_field = "tool_choice";  // the dialect's field with tool_choice, for errors
  std::optional<bool> thinking;                   // with or without reasoning; nullopt = the template decides
  bool emits_reasoning = true;                    // false: reasoning is recorded, but not part of the reply
  // Messages and Google: a call's arguments are delivered as an object, as far as they can be read
  // (text::ReadableObject).
  bool object_arguments = false;

  int32_t n = 1;           // answers per prompt
  int64_t max_tokens = 0;  // of the answer; 0 = the gateway's default
  std::optional<double> temperature, top_p, min_p, frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;  // extension: ids that end the answer, in addition to the end of the turn
  bool emits_stop = false;              // extension: the answer's text includes the stop string that ended it
  bool ignore_eos = false;              // extension: the end of the turn does not end the answer
  int32_t min_tokens = 0;               // extension: only max_tokens ends the answer before this many tokens

  bool stream = false;
  bool streams_array = false;     // Google: the stream is one JSON array, not server-sent events
  bool include_usage = false;     // chat completions: a usage chunk ends the stream
  bool return_token_ids = false;  // extension: prompt_token_ids and token_ids in the reply
  bool token_events = false;      // RawRequest::token_events
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool raw_output = false;       // completions: the sampled text is delivered unchanged, without calls or reasoning
  bool echo_prompt = false;      // completions: the prompt's text precedes the answer's
  bool count_only = false;       // count_tokens: the prompt's tokens are counted, and nothing is sampled
  bool seals_reasoning = false;  // Responses API: reasoning items carry encrypted_content
  RepeatedFields repeated;       // Responses API

  int32_t prompts() const { return raw_prompts.empty() ? 1 : static_cast<int32_t>(raw_prompts.size()); }
  int32_t choices() const { return n * prompts(); }
  bool tools_enabled() const { return !conversation.tools.empty() && tool_choice.mode != ToolChoice::Mode::kNone; }
  bool holds_answer() const { return json_schema.has_value() || regex.has_value() || !choice_texts.empty(); }
  bool wants_tokens() const { return logprobs || return_token_ids || token_events; }
  const Tool* FindTool(std::string_view name) const;
};

}  // namespace ingot::gateway
