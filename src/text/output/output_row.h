// Describes how a model family writes a turn, as data with one row per format. The parser and the writer are driven by
// the rows and contain no format names. To add a format, add a row (in output_table.cc, or a JSON file with the same
// fields).
//
// A turn is
//
//   [whitespace] [think_begin reasoning think_end] content [before section] [content] [before section] ...
//   section = begin call (between call)* end
//
// or, with `channels`, a list of channel messages (see ChannelRow). `begin`, `call`, `end`, and `parameter` are
// patterns.
//
// Pattern text is literal, except for placeholders in braces:
//   {name}        the tool's name: no whitespace, quotes, brackets, commas, or angle brackets; at most 256 bytes
//   {id}          the call's id, with the same character rules; without {name}, it also gives the name (id_prefix,
//                 id_index)
//   {json}        the arguments as one JSON object, kept byte for byte
//   {object}      the call as one JSON object. name_keys, argument_keys, and id_keys name its members, in any order.
//                 Other members are ignored
//   {parameters}  any number of `parameter` patterns separated by whitespace; becomes one JSON object
//   {keywords}    Python keyword arguments with literal values: a=1, b=['x']; becomes one JSON object
//   {~TEXT}       any whitespace, or none; the writer writes TEXT
//   {?TEXT...}    optional: parsed if TEXT, which extends to the next brace, is present. The writer omits it.
// The following are allowed only in `parameter`:
//   {key}         a name up to the following text, at most 256 bytes, on one line
//   {value}       a value up to the following text, if that is followed by another parameter or the end of the
//                 parameters. So a value may contain its own end text. Whitespace next to {value} in the pattern is
//                 padding: exactly this whitespace is removed if present.
//   {is_string}   true = the value is a string, false = it is JSON
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::text {

// Describes where calls may appear in a turn, and their form.
struct SectionRow {
  std::string begin = {};  // pattern before the first call; may be empty
  std::string call = {};   // pattern for one call
  // The text that the writer puts between two calls. The parser requires this text with any surrounding whitespace. If
  // it is empty, the parser recognizes another call by its beginning.
  std::string between = {};
  std::string end = {};  // pattern after the last call; empty = the section ends when no call follows
  // Text that the writer puts between the content and the section. The parser removes it from the end of the content.
  std::string before = {};
  // True = the section can only be at the start of the visible text and is recognized by its first character. Text that
  // turns out not to be a call is content. It counts as malformed only if a name and the start of the arguments were
  // read.
  bool bare = false;
};

// A turn that consists of messages with headers (OpenAI's Harmony):
//
//   [start role] [channel NAME] [recipient_key RECIPIENT] [constrain TYPE] message BODY one-of-ends
//
// The parts of a header may be in any order. A message with a recipient is a call, and its body contains the
// arguments as JSON. Any other message is reasoning or content, depending on its channel. `joiner` is placed
// between content bodies and between reasoning bodies. The first header may lack `start`, which is then part of the
// prompt.
struct ChannelRow {
  // Literals. Empty `message` = the format has no channels.
  std::string start = {}, channel = {}, constrain = {}, message = {};
  std::vector<std::string> ends = {};
  std::vector<std::string> reasoning = {};  // channels for reasoning; all others are content
  std::string recipient_key = {};
  std::string recipient_prefix = {};  // prefix of tool names, removed by the parser
  std::string joiner = {};
  // Patterns for the writer. {json} and {name} are as above, and {content} is the text.
  std::string write_content = {}, write_preamble = {}, write_call = {}, write_between = {};
  bool used() const { return !message.empty(); }
};

struct OutputRow {
  std::string name = {};
  std::vector<std::string> aliases = {};

  // Empty = no reasoning. Line feeds next to the reasoning are removed.
  std::string think_begin = {}, think_end = {};
  // The section that begins first in the text is used. In a tie, the section with the longest beginning wins.
  std::vector<SectionRow> sections = {};
  std::vector<std::string> dropped = {};  // literals to drop, such as delimiters around the content

  std::string parameter = {};  // pattern that {parameters} repeats
  std::vector<std::string> name_keys = {"name"}, argument_keys = {"arguments"}, id_keys = {};  // members of {object}

  // How to convert {id} to the name: remove the prefix, if present, and the last `id_index` (one character) and the
  // digits after it. The writer writes "prefix name id_index index-of-the-call" without spaces.
  std::string id_prefix = {}, id_index = {};

  ChannelRow channels = {};
};

// Returns the built-in rows.
const std::vector<OutputRow>& BuiltinOutputRows();

// Reads a row from JSON with these field names. Missing fields keep their defaults. Returns INVALID_ARGUMENT, naming
// the field, if a field is unknown or has the wrong type. OutputFormat::Make checks the patterns.
absl::StatusOr<OutputRow> OutputRowFromJson(const base::json::value& json);

}  // namespace ingot::text
