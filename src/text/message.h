// A message of a conversation, and the turn that a model wrote. Chat formats render them and output formats read them.
// Plain values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"

namespace ingot::text {

struct ToolCall {
  std::string id;  // the id that clients send back; a template may print it
  std::string name;
  std::string arguments_json;  // as the model or the client wrote it, which need not be JSON
  // The id that the model wrote, if its format has ids and `id` is different; empty: `id` is the model's, or the model
  // wrote no id. Templates print it instead of `id`, in the call and in its result.
  std::string written_id = {};
};

// A part of a message that is not text, such as an image.
struct MediaPart {
  size_t at = 0;        // its place: bytes of the message's content before it
  std::string kind;     // "image", ...
  std::string content;  // its hash, which v1::Placeholders uses as the name of the content
};

// A message's parts are the pieces of its content and the media between them.
struct Message {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string reasoning;  // of the assistant; empty: none
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // of role tool: the call that this result answers
  std::string name;
  base::json::object extra = {};      // more fields, as the client sent them; a template may read them
  std::vector<MediaPart> media = {};  // ascending; empty = only text
};

// An assistant's turn as the output format reads it. Text between and after tool calls belongs to the content; the
// white space around calls belongs to the format.
struct ParsedOutput {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;  // without ids: the gateway assigns them
  // A tool call begins but breaks the format. Its text stays in the content or, if calls are streamed (CallMode), in
  // the call's arguments.
  bool malformed = false;
};

}  // namespace ingot::text
