// The gateway's own form of a request, which every dialect is read into. Plain values.
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
#include "text/chat.h"

namespace ingot::gateway {

// The headers of a request that a dialect may look at. Names are compared without case.
class Headers {
 public:
  void Add(std::string_view name, std::string_view text);
  // The first of that name; empty if there is none.
  std::string_view Get(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;  // names in lower case
};

// A request as it came.
struct RawRequest {
  std::string body;
  Headers headers;
  bool token_events = false;  // every event of the answer names the ids it covers (gRPC)
};

// What a tool is in its dialect. The model knows functions only; a call of one goes back as what was declared.
enum class ToolKind {
  kFunction,
  kOldFunction,  // chat completions' older form: one call, in the message's function_call
  kCustom,       // free text: a function of one string, "input"
  // The Responses API's own (dialects/client_tools.h):
  kLocalShell,
  kShell,
  kApplyPatch,
};

struct Tool {
  ToolKind kind = ToolKind::kFunction;
  std::string name;        // as the model knows it
  std::string wire_name;   // as the client does
  std::string name_space;  // Responses: of its namespace; empty: none
  bool strict = false;     // its schema must be held to in all that it says
};

struct ToolChoice {
  enum class Mode {
    kAuto,
    kNone,      // tools are rendered (the prompt stays a continuation), but what looks like a call is delivered as text
    kRequired,  // sampling is held to calls
  };
  Mode mode = Mode::kAuto;
  std::vector<std::string> names;  // as the model knows them: only these may be called; empty: any
};

// What a reply repeats of its request, and its text: the members as they are printed, without braces.
struct RepeatedFields {
  base::json::object json;
  std::string text;
};

struct GatewayRequest {
  std::string model;          // as asked; empty: none was
  std::string branch;         // names a sub-agent's thread; empty: the main one
  std::string parent_branch;  // the thread that started it, where the client says so

  text::Conversation conversation;
  EchoedIds echoed_ids;  // as many as messages
  // Parts of earlier answers that the client names instead of sending them: empty in the conversation until they are
  // resolved (item_references.h).
  struct ItemReference {
    size_t message = 0;  // where the part belongs
    PartKind kind = PartKind::kContent;
    size_t at = 0;        // bytes of the message's text, or tool calls, before it
    std::string call_id;  // the answer's
    size_t index = 0;     // a tool call's among those of its answer
    std::string path;     // of the reference in the request
  };
  std::vector<ItemReference> references;
  // Instead of the conversation: prompts that are not rendered, each answered on its own.
  struct RawPrompt {
    std::string text;  // encoded, special tokens recognised
    std::vector<int32_t> ids;
  };
  std::vector<RawPrompt> raw_prompts;
  const char* prompt_field = "messages";  // what its dialect calls what it is prompted with: errors name it

  std::vector<Tool> tools;  // of conversation.tools, in the same order
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;               // false: the turn ends after its first call
  std::optional<std::string> json_schema;        // the answer must be one JSON value that this schema allows
  std::string format_field = "response_format";  // what its dialect calls that schema: errors name it
  std::optional<bool> thinking;                  // asked for, or asked to be left out; unset: the template decides
  bool tells_reasoning = true;                   // false: it is recorded, but no part of the reply

  int32_t n = 1;           // answers per prompt
  int64_t max_tokens = 0;  // 0: not asked
  std::optional<double> temperature, top_p, min_p, frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> stop;

  bool stream = false;
  bool include_usage = false;     // chat: a usage chunk ends the stream
  bool return_token_ids = false;  // extension: prompt_token_ids and token_ids in the reply
  bool token_events = false;      // RawRequest's
  bool logprobs = false;
  int32_t top_logprobs = 0;
  bool raw_output = false;       // what is sampled is text as it stands: no calls, no reasoning
  bool echo_prompt = false;      // completions: the prompt's text comes before the answer's
  bool count_only = false;       // nothing is sampled: how many tokens the prompt has
  bool seals_reasoning = false;  // responses: reasoning items carry encrypted_content
  RepeatedFields repeated;       // responses: in the reply

  int32_t prompts() const { return raw_prompts.empty() ? 1 : static_cast<int32_t>(raw_prompts.size()); }
  int32_t choices() const { return n * prompts(); }
  bool tools_enabled() const { return !conversation.tools.empty() && tool_choice.mode != ToolChoice::Mode::kNone; }
  bool wants_tokens() const { return logprobs || return_token_ids || token_events; }
  const Tool* FindTool(std::string_view name) const;
};

}  // namespace ingot::gateway
