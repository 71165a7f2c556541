// `ingot text NAME`: runs the project's tokenizer, templates, and parsers on JSON Lines, for comparison with other
// implementations. Every command prints one JSON line per input line, in order. Depends only on ingot_text.
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
  std::string tokenizer_dir;       // folder with tokenizer.json
  bool special = false;            // encode: adds the special tokens that the tokenizer's template puts around a string
  bool skip_special = false;       // decode: omits special tokens
  std::string format;              // parse: name of an output format, or a file that defines one (text_parse_command.h)
  bool like_transformers = false;  // render: prepares messages as transformers does (text_render_command.h)
};

// Processes one line of input.
using TextLine = std::function<absl::StatusOr<base::json::value>(const base::json::value& input)>;

// An entry in the command table. To add a command, add it to TextCommands and its options to TextArgs.
struct TextCommand {
  std::string_view name;
  std::string_view help;
  // Fields of TextArgs that the command uses: "tokenizer" (required), "special", "skip-special", "format" (required),
  // "like-transformers".
  std::vector<std::string_view> options;
  // Loads the command's data. Called once.
  absl::StatusOr<TextLine> (*make)(const TextArgs& args);
};
const std::vector<TextCommand>& TextCommands();

// Runs a command. For a line that is not valid JSON or that the command rejects, prints {"error": string, "line":
// 1-based line number} and continues. Skips empty lines. Returns the exit code: 0 for success, 1 if a line was rejected
// or the tokenizer cannot be read (with a line on `errors`), and 2 if the command does not exist.
int RunTextCommand(std::string_view name, const TextArgs& args, std::istream& in, std::ostream& out,
                   std::ostream& errors);

}  // namespace ingot::app
