// How a model family writes a turn, as data: one row per format. The parser, the streaming parser and the writer read
// rows and know no format by name; a new format is a new row (output_table.cc, or a JSON file with the same fields).
//
// A turn is
//
//   [white space] [think_begin reasoning think_end] content [before section] [content] [before section] ...
//   section = begin call (between call)* end
//
// or, where `channels` is set, a list of channel messages (see ChannelRow). What stands between the pieces is data too:
// `begin`, `call`, `end` and `parameter` are patterns.
//
// Patterns. Text stands for itself, and in braces:
//   {name}        the tool's name: no white space, quotes, brackets, commas or angle brackets; at most 256 bytes
//   {id}          the call's id, in the same characters; gives the name too where the pattern has no {name} (id_*)
//   {json}        the arguments: one JSON object, kept byte for byte
//   {object}      the call as one JSON object: name_keys, argument_keys and id_keys say where things are in it, other
//                 keys are ignored, order is free
//   {parameters}  any number of `parameter` patterns with white space between; become one JSON object
//   {keywords}    Python keyword arguments with literal values: a=1, b=['x']; become one JSON object
//   {~TEXT}       any white space or none; written as TEXT
//   {?TEXT...}    optional: taken if TEXT stands there, which reaches to the next brace. Not written.
// and in `parameter` only:
//   {key}         up to the text that follows it, at most 256 bytes, on one line
//   {value}       everything up to the text that follows it, where that is followed by another parameter or what ends
//                 them (so a value may quote its own end). White space beside {value} in the pattern is padding:
//                 removed if it stands there exactly, and nothing more.
//   {is_string}   true: the value is a string; false: it is JSON
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// Where calls stand, and how.
struct SectionRow {
  std::string begin = {};  // pattern before the first call; may be empty
  std::string call = {};   // pattern of one call
  // Between two calls as written. Its text without the white space around it is required, the white space is free;
  // without text, a further call is known by its first text.
  std::string between = {};
  std::string end = {};  // pattern after the last call; empty: the section ends where no further call follows
  // Written between content and section; removed from the end of the content if it stands there.
  std::string before = {};
  // The section may only stand where the visible text begins, and is known by its first character. What turns out not
  // to be a call is content, and is malformed only if a name and the beginning of arguments were there.
  bool bare = false;
};

// A turn as messages with a header each (OpenAI's Harmony):
//
//   [start role] [channel NAME] [recipient_key RECIPIENT] [constrain TYPE] message BODY one-of-ends
//
// in any order within the header. A message to a recipient is a call, its body the arguments as JSON; any other is
// reasoning or content by its channel. Bodies of one kind are joined by `joiner`. The first header may lack `start`,
// which is then part of the prompt.
struct ChannelRow {
  // Literal texts; `message` empty: the format has no channels.
  std::string start = {}, channel = {}, constrain = {}, message = {};
  std::vector<std::string> ends = {};
  std::vector<std::string> reasoning = {};  // names of channels; all others are content
  std::string recipient_key = {};
  std::string recipient_prefix = {};  // of tools' names; removed
  std::string joiner = {};
  // For writing: patterns. {json} and {name} as above; {content} is the text.
  std::string write_content = {}, write_preamble = {}, write_call = {}, write_between = {};
  bool used() const { return !message.empty(); }
};

struct OutputRow {
  std::string name = {};
  std::vector<std::string> aliases = {};

  std::string think_begin = {}, think_end = {};  // empty: no reasoning. New lines beside the reasoning are removed.
  std::vector<SectionRow> sections = {};  // tried by which begins first in the text, then by the longest beginning
  std::vector<std::string> dropped = {};  // texts without meaning, such as marks around the content

  std::string parameter = {};  // pattern of {parameters}
  std::vector<std::string> name_keys = {"name"}, argument_keys = {"arguments"}, id_keys = {};  // of {object}

  // {id} to name: the prefix is removed if it is there, and the last `id_index` (one character) with the digits after
  // it. Writing: prefix name id_index index-of-the-call.
  std::string id_prefix = {}, id_index = {};

  ChannelRow channels = {};
};

// The rows that ship.
const std::vector<OutputRow>& BuiltinOutputRows();

// A row from JSON with these field names; what is missing has its default. INVALID_ARGUMENT names an unknown field or
// one of the wrong type. Patterns are checked by OutputFormat::Make.
absl::StatusOr<OutputRow> OutputRowFromJson(const base::json::value& json);

}  // namespace ingot::text
