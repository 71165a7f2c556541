// Describes a chat format as data: the literal text around messages, tool calls, tool results, and reasoning.
// chat_format.cc renders any spec and contains no format names. RowOf returns the output row that parses the spec's
// turns.
//
//   system:     turn_begin system role_end [content tools_separator] tools_begin tool* tools_end turn_end after_turn
//   user:       turn_begin user role_end content turn_end after_turn
//   assistant:  turn_begin assistant role_end
//               [think_begin think_pad reasoning think_pad think_end after_think]
//               content [call_separator] call_begin call_pad {json} call_pad call_end [call_separator ...]
//               turn_end after_turn
//   tools:      turn_begin user role_end response_begin pad content pad response_end [response_separator ...]
//               turn_end after_turn
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/output/output_row.h"

namespace ingot::text {

struct FormatSpec {
  std::string name;

  std::string turn_begin = "<|im_start|>";  // turn_begin and turn_end must be special tokens in the tokenizer
  std::string role_end = "\n";
  std::string turn_end = "<|im_end|>";
  std::string after_turn = "\n";
  std::string stop_token = "<|endoftext|>";  // also ends a turn, if the tokenizer has it

  std::string tools_separator;  // between the system message's text and the tools
  std::string tools_begin;
  std::string tool_prefix;  // before each tool
  std::string tools_end;
  bool tools_as_signatures = false;  // true = write only name(parameter, ...) instead of the full JSON definition

  std::string think_begin = "<think>";
  std::string think_pad = "\n";
  std::string think_end = "</think>";
  std::string after_think = "\n\n";

  std::string call_begin = "<tool_call>";
  std::string call_pad = "\n";
  std::string call_end = "</tool_call>";
  std::string call_separator = "\n";  // before a call that follows text or another call

  std::string response_begin = "<tool_response>";
  std::string response_pad = "\n";
  std::string response_end = "</tool_response>";
  std::string response_separator = "\n";  // between results in the same turn

  // Returns the literals that are written as single tokens if the tokenizer has such tokens.
  std::vector<std::string> Markers() const {
    return {turn_begin, turn_end, think_begin, think_end, call_begin, call_end, response_begin, response_end};
  }

  // Returns an unambiguous encoding of every field, used for the fingerprint.
  std::string Definition() const;
};

std::span<const FormatSpec> BuiltinFormats();

// Returns the output row that parses the spec's rendered turns.
OutputRow RowOf(const FormatSpec& spec);

}  // namespace ingot::text
