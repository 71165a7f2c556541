// Represents a request independently of its dialect. Plain values.
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

// The request headers. Names are case-insensitive.
class Headers {
 public:
  // Adds a header.
  void Add(std::string_view name, std::string_view text);
  // Returns the first header with this name, or "" if there is none.
  std::string_view Get(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;  // names in lowercase
};

// Returns a URL query parameter's value, still escaped, or "" if there is no such parameter.
std::string_view QueryValue(std::string_view query, std::string_view name);

// A request as the client sent it.
struct RawRequest {
  std::string body;
  Headers headers;
  std::string model = {};     // model in the URL (arbitrary bytes); empty = the body may name it
  std::string query = {};     // the URL's query without the question mark
  bool token_events = false;  // each event includes the tokens that it covers (gRPC)
};

// How a client declared a tool. The model sees only functions, and its calls are converted back to the declared kind.
enum class ToolKind {
  kFunction,
  kOldFunction,  // older format in chat completions: a single call in the message's function_call
  kCustom,       // free text; the model sees a function with one string, "input"
  // Responses API (client_tools.h):
  kLocalShell,
  kShell,
  kApplyPatch,
};

struct Tool {
  ToolKind kind = ToolKind::kFunction;
  std::string name;        // name that the model sees
  std::string wire_name;   // name that the client sees
  std::string name_space;  // Responses API: the tool's namespace; empty = none
  bool strict = false;     // arguments must satisfy the full schema
};

struct ToolChoice {
  enum class Mode {
    kAuto,
    kNone,      // tools are still rendered, so the prompt remains a continuation, but calls are delivered as text
    kRequired,  // sampling is constrained to tool calls
  };
  Mode mode = Mode::kAuto;
  std::vector<std::string> names;  // callable tools, by the names that the model sees; empty = all
};

// The request fields that the reply repeats.
struct RepeatedFields {
  base::json::object json;
  std::string text;  // the members of `json`, serialized without braces
};

struct GatewayRequest {
  std::string model;          // empty = none
  std::string branch;         // the sub-agent's thread; empty = the main thread
  std::string parent_branch;  // the thread that started this one; empty = not specified
  std::string session;        // shared by all of one client's threads; empty = not specified
  std::string role;           // role within the episode, such as a player; empty = none

  text::Conversation conversation;
  EchoedIds echoed_ids;  // one entry per message
  // Responses API: a reference to a part of an earlier answer. ResolveReferences (item_references.h) adds the part to
  // the conversation.
  struct ItemReference {
    size_t message = 0;  // index of the message that the part belongs to
    PartKind kind = PartKind::kContent;
    size_t at = 0;        // position: number of bytes of message text, or of tool calls, before the part
    std::string call_id;  // the earlier answer's call id
    size_t index = 0;     // index of a tool call in the earlier answer
    std::string path;     // path of the reference in the request, for errors
  };
  std::vector<ItemReference> references;
  // A prompt that is not rendered. Each raw prompt gets its own answer. If there are any, the conversation is ignored.
  struct RawPrompt {
    std::string text;          // encoded with special tokens recognized; ignored if `ids` is not empty
    std::vector<int32_t> ids;  // empty = the prompt is `text`
  };
  std::vector<RawPrompt> raw_prompts;
  const char* prompt_field = "messages";  // the dialect's field that holds the prompt, for errors

  std::vector<Tool> tools;  // parallel to conversation.tools
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;  // false = the turn ends after its first call
  // At most one of these is set. It constrains the answer to a JSON value that satisfies the schema, to a string that
  // fully matches the regular expression (grammar/regex.h), or to one of the listed strings.
  std::optional<std::string> json_schema, regex;
  std::vector<std::string> choice_texts;
  std::string format_field = "response_format";   // the field that holds the constraint, for errors
  std::string tool_choice_field = "tool_choice";  // the dialect's field that holds tool_choice, for errors
  std::optional<bool> thinking;                   // reasoning on or off; nullopt = the template decides
  bool emits_reasoning = true;                    // false = reasoning is recorded but not sent
  // Messages and Google: call arguments are delivered as an object, as far as they can be parsed
  // (text::ReadableObject).
  bool object_arguments = false;

  int32_t n = 1;           // answers per prompt
  int64_t max_tokens = 0;  // limit on the answer's length; 0 = the gateway's default
  std::optional<double> temperature, top_p, min_p, frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;  // extension: ids that end the answer, in addition to the end-of-turn ids
  bool emits_stop = false;              // extension: the answer includes the stop string that ended it
  bool ignore_eos = false;              // extension: end-of-turn ids do not end the answer
  int32_t min_tokens = 0;               // extension: only max_tokens ends the answer before it has this many tokens

  bool stream = false;
  bool streams_array = false;     // Google: the stream is a JSON array instead of server-sent events
  bool include_usage = false;     // chat completions: the stream ends with a usage chunk
  bool return_token_ids = false;  // extension: the reply has prompt_token_ids and token_ids
  bool token_events = false;      // RawRequest::token_events
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool raw_output = false;       // completions: delivers the sampled text as is, without parsing calls or reasoning
  bool echo_prompt = false;      // completions: the answer starts with the prompt
  bool count_only = false;       // count_tokens: counts the prompt tokens without sampling
  bool seals_reasoning = false;  // Responses API: reasoning items include encrypted_content
  RepeatedFields repeated;       // Responses API

  int32_t prompts() const { return raw_prompts.empty() ? 1 : static_cast<int32_t>(raw_prompts.size()); }
  int32_t choices() const { return n * prompts(); }
  bool tools_enabled() const { return !conversation.tools.empty() && tool_choice.mode != ToolChoice::Mode::kNone; }
  bool holds_answer() const { return json_schema.has_value() || regex.has_value() || !choice_texts.empty(); }
  bool wants_tokens() const { return logprobs || return_token_ids || token_events; }
  const Tool* FindTool(std::string_view name) const;
};

}  // namespace ingot::gateway
