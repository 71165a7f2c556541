// `ingot text NAME`: what this project makes of text, for anyone to compare with another implementation. Every command
// reads JSON lines and prints one JSON line for each, in order. Needs nothing but ingot_text.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace ingot::app {

struct TextArgs {
  std::string tokenizer_dir;       // a folder with tokenizer.json
  bool special = false;            // encode: add what the tokenizer's template puts around a text
  bool skip_special = false;       // decode: leave special tokens out
  std::string format;              // parse: the name of an output format, or a file of one (text_parse_command.h)
  bool like_transformers = false;  // render: messages are prepared as transformers does (text_render_command.h)
};

// What one line of input gives.
using TextLine = std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>;

// A command of the table: to add one is to add its entry to TextCommands, and the options it needs to TextArgs.
struct TextCommand {
  std::string_view name;
  std::string_view help;
  std::vector<std::string_view> options;  // fields of TextArgs it takes: "tokenizer" (required), "special",
                                          // "skip-special", "format" (required), "like-transformers"
  // Loads what the command needs, once.
  absl::StatusOr<TextLine> (*make)(const TextArgs& args);
};
const std::vector<TextCommand>& TextCommands();

// Runs a command. A line that is no JSON, or that the command refuses, gives {"error": text, "line": number from 1};
// the others are done all the same. Empty lines are skipped. Returns the exit code: 0; 1 if a line was refused or the
// tokenizer cannot be read (said on `errors`); 2 if there is no such command.
int RunTextCommand(std::string_view name, const TextArgs& args, std::istream& in, std::ostream& out,
                   std::ostream& errors);

}  // namespace ingot::app
