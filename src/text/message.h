// Defines conversation messages and model turns as plain values. Chat formats render them, and output formats parse
// them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"

namespace ingot::text {

struct ToolCall {
  std::string id;  // the id that clients send back; a template may print it
  std::string name;
  std::string arguments_json;  // as written by the model or the client; not necessarily JSON
  // The id that the model wrote, if its format has ids and it differs from `id`. Templates print it instead of `id`, in
  // both the call and its result. Empty = the model wrote `id` or no id.
  std::string written_id = {};
};

// A part of a message that is not text, such as an image.
struct MediaPart {
  size_t at = 0;        // position: number of content bytes before it
  std::string kind;     // "image", ...
  std::string content;  // hash that identifies the content in v1::Placeholders
};

// A message. Media parts are placed between pieces of its content.
struct Message {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string reasoning;  // for assistant messages; empty = none
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // for role tool: id of the call that produced this result
  std::string name;
  base::json::object extra = {};      // the client's other fields; templates may read them
  std::vector<MediaPart> media = {};  // ascending by `at`; empty = text only
};

// An assistant turn as parsed by the output format. Text between and after tool calls is part of the content.
// Whitespace around calls is part of the format.
struct ParsedOutput {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;  // without ids; the gateway assigns them
  // True = a tool call violates the format. Its text remains in the content or, if calls are streamed (CallMode), in
  // the call's arguments.
  bool malformed = false;
};

}  // namespace ingot::text
