// OutputRow: how a model family writes a turn, as data, one row per format. The parser and the writer read rows and do
// not know any format by name. A new format is a new row (output_table.cc, or a JSON file with the same fields).
//
// A turn is
//
//   [white space] [think_begin reasoning think_end] content [before section] [content] [before section] ...
//   section = begin call (between call)* end
//
// or, with `channels`, a list of channel messages (see ChannelRow). `begin`, `call`, `end` and `parameter` are
// patterns.
//
// Patterns. Text stands for itself. Braces hold placeholders:
//   {name}        the tool's name: no white space, quotes, brackets, commas or angle brackets; at most 256 bytes
//   {id}          the call's id, in the same characters; without {name}, it also gives the name (id_prefix, id_index)
//   {json}        the arguments: one JSON object, kept byte for byte
//   {object}      the call as one JSON object; name_keys, argument_keys and id_keys name its members, which may come
//                 in any order; other members are ignored
//   {parameters}  any number of `parameter` patterns with white space between; gives one JSON object
//   {keywords}    Python keyword arguments with literal values: a=1, b=['x']; gives one JSON object
//   {~TEXT}       any white space or none; the writer writes TEXT
//   {?TEXT...}    optional: read if TEXT is there; TEXT reaches to the next brace. The writer leaves it out.
// and, only in `parameter`:
//   {key}         a name up to the following text, at most 256 bytes, on one line
//   {value}       a value up to the following text, if another parameter or the end of the parameters follows that. So
//                 a value may contain its own end text. White space next to {value} in the pattern is padding: exactly
//                 this white space is removed if present.
//   {is_string}   true: the value is a string; false: it is JSON
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// A place for calls within a turn, and their form.
struct SectionRow {
  std::string begin = {};  // pattern before the first call; may be empty
  std::string call = {};   // pattern of one call
  // The text between two calls, as the writer writes it. The parser requires its text, with any white space around it.
  // Without text, the parser recognises another call by its first text.
  std::string between = {};
  std::string end = {};  // pattern after the last call; empty = the section ends if no other call follows
  // Written between content and section; the parser removes it from the end of the content.
  std::string before = {};
  // The section may only begin the visible text, and its first character identifies it. If it is not a call after all,
  // it is content; it is malformed only if a name and the beginning of arguments were read.
  bool bare = false;
};

// A turn as messages with headers (OpenAI's Harmony):
//
//   [start role] [channel NAME] [recipient_key RECIPIENT] [constrain TYPE] message BODY one-of-ends
//
// The parts of a header come in any order. A message to a recipient is a call, and its body is the arguments as JSON.
// Any other message is reasoning or content, depending on its channel. `joiner` joins bodies of one kind. The first
// header may lack `start`, which is then part of the prompt.
struct ChannelRow {
  // Literal texts; empty `message` = the format has no channels.
  std::string start = {}, channel = {}, constrain = {}, message = {};
  std::vector<std::string> ends = {};
  std::vector<std::string> reasoning = {};  // the channels of reasoning; all others are content
  std::string recipient_key = {};
  std::string recipient_prefix = {};  // a prefix of tool names, which the parser removes
  std::string joiner = {};
  // Patterns for the writer. {json} and {name} as above; {content} is the text.
  std::string write_content = {}, write_preamble = {}, write_call = {}, write_between = {};
  bool used() const { return !message.empty(); }
};

struct OutputRow {
  std::string name = {};
  std::vector<std::string> aliases = {};

  // Empty = no reasoning. Line feeds next to the reasoning are removed.
  std::string think_begin = {}, think_end = {};
  std::vector<SectionRow> sections = {};  // the first to begin in the text wins, then the longest beginning
  std::vector<std::string> dropped = {};  // texts without meaning, such as delimiters around the content

  std::string parameter = {};  // the pattern that {parameters} repeats
  std::vector<std::string> name_keys = {"name"}, argument_keys = {"arguments"}, id_keys = {};  // members of {object}

  // {id} to name: removes the prefix if present, and the last `id_index` (one character) with the digits after it.
  // The writer writes: prefix name id_index index-of-the-call.
  std::string id_prefix = {}, id_index = {};

  ChannelRow channels = {};
};

// The built-in rows.
const std::vector<OutputRow>& BuiltinOutputRows();

// Reads a row from JSON with these field names; a missing field has its default. INVALID_ARGUMENT names an unknown
// field or a field of the wrong type. OutputFormat::Make checks the patterns.
absl::StatusOr<OutputRow> OutputRowFromJson(const base::json::value& json);

}  // namespace ingot::text
