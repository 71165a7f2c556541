// `ingot text NAME`: the project's tokenizer, templates and parsers on JSON lines, for comparison with other
// implementations. Every command prints one JSON line per input line, in order. Needs only ingot_text.
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
  bool special = false;            // encode: add the special tokens that the tokenizer's template puts around a text
  bool skip_special = false;       // decode: leave special tokens out
  std::string format;              // parse: the name of an output format, or a file with one (text_parse_command.h)
  bool like_transformers = false;  // render: prepare messages as transformers does (text_render_command.h)
};

// The result of one line of input.
using TextLine = std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>;

// A command of the table. To add one, add its entry to TextCommands and its options to TextArgs.
struct TextCommand {
  std::string_view name;
  std::string_view help;
  // fields of TextArgs that it takes: "tokenizer" (required), "special", "skip-special", "format" (required),
  // "like-transformers"
  std::vector<std::string_view> options;
  // Loads the command's data, once.
  absl::StatusOr<TextLine> (*make)(const TextArgs& args);
};
const std::vector<TextCommand>& TextCommands();

// Runs a command. A line that is not JSON, or that the command rejects, gives {"error": text, "line": number from 1};
// the other lines are still processed. Empty lines are skipped. Returns the exit code: 0; 1 if a line was rejected or
// the tokenizer cannot be read (with a line on `errors`); 2 if there is no such command.
int RunTextCommand(std::string_view name, const TextArgs& args, std::istream& in, std::ostream& out,
                   std::ostream& errors);

}  // namespace ingot::app
