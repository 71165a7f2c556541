// A message of a conversation, and the turn that a model wrote: what chat formats render and output formats read. Plain
// values.
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
  // The id that the model wrote, if its format has ids and `id` is another one; empty: `id` is the model's, or there is
  // none. Templates print it in place of `id`, in the call and in its result.
  std::string written_id = {};
};

// A part of a message that is no text, such as an image.
struct MediaPart {
  size_t at = 0;        // its place: bytes of the message's content before it
  std::string kind;     // "image", ...
  std::string content;  // hash of it, as v1::Placeholders names what its ids stand for
};

// A message's parts are the pieces of its content and the media between them.
struct Message {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string reasoning;  // of the assistant; empty: none
  std::vector<ToolCall> tool_calls;
  std::string tool_call_id;  // of role tool: the call that this result answers
  std::string name;
  base::json::object extra = {};      // further fields as the client sent them; a template may read them
  std::vector<MediaPart> media = {};  // ascending; empty = text alone
};

// An assistant's turn as the output format reads it. Text between and behind tool calls belongs to the content; the
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
