// Parses and writes a model family's reasoning and tool calls. Every format is a row in a table (output_row.h), found
// by name.
//
// Malformed output: text that violates the format is kept as the model wrote it, and `malformed` is set. It becomes
// part of the content or, in a streamed call (CallMode::kStreamed), stays in the arguments. Truncated output is parsed
// as far as possible, and a truncated call is malformed.
//
// Arguments: for formats with JSON arguments, the model's bytes are kept. For formats with parameters or Python, the
// result is one JSON object with the parameters in order, spaced as in Python's json.dumps. Each parameter gets the
// type in the tool's JSON schema (JsonOfText in argument_values.h), so parsing requires the tools.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/message.h"
#include "text/output/output_machine.h"
#include "text/output/output_row.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

// Replaces the content of a started answer in a prefill.
inline constexpr char kBegunContent[] = "x";

struct ParseOptions {
  std::span<const base::json::value> tools = {};  // in OpenAI's format; read only during the function call
  // The prefill is the part of this turn that the prompt already contains, such as "<think>\n"
  // (OutputFormat::PrefillOf). Its text is not part of the message.
  std::string_view prefill = {};
  CallMode calls = CallMode::kWhole;
};

// Immutable and thread safe. Formats from FindOutputFormat are never destroyed.
class OutputFormat {
 public:
  // Returns INVALID_ARGUMENT, with the problem, if the row is invalid.
  static absl::StatusOr<std::shared_ptr<const OutputFormat>> Make(const OutputRow& row);

  // Returns the same format for streams of one tokenizer (OutputStream). If a delimiter is a token in that tokenizer,
  // only the token is recognized, so ordinary text cannot fake it. Parse() on the result does not find such delimiters,
  // because plain text has no tokens.
  std::shared_ptr<const OutputFormat> ForTokenizer(const Tokenizer& tokenizer) const;

  const std::string& name() const { return row_.row.name; }
  const OutputRow& row() const { return row_.row; }
  // Delimiters that are recognized only as tokens. Empty unless the format is from ForTokenizer.
  const std::vector<std::string>& tokens() const { return row_.tokens; }

  // Parses a complete output. Never fails. Calls have ids if the format writes them. REQUIRES: `output` includes
  // special tokens as text, but not the end of the turn.
  ParsedOutput Parse(std::string_view output, const ParseOptions& options = {}) const;

  // Returns the prefill in a generation prompt, which starts at the first reasoning or channel delimiter. Returns "" if
  // there is none. The turn's header never contains such a delimiter.
  std::string_view PrefillOf(std::string_view generation_prompt) const;

  // Writes content and calls as a turn in this format. Parse returns the same content and equivalent JSON arguments.
  // Returns INVALID_ARGUMENT if arguments are not a JSON object or the format cannot write a name or key, and
  // UNIMPLEMENTED if the format has no calls.
  absl::StatusOr<std::string> WriteCalls(std::string_view content, std::span<const ToolCall> calls) const;

  // The shape of a turn with calls, used to force the model to call a chosen tool: begin CALL [between CALL]... end.
  struct CallPiece {
    enum Kind {
      kText,        // `text`
      kArguments,   // the arguments as one JSON object
      kParameters,  // the arguments one by one, as in ParameterShape
      kKeywords,    // the arguments as Python keyword arguments
      kIndex,       // a number that distinguishes calls
    };
    Kind kind = kText;
    std::string text = {};
  };
  struct CallShape {
    std::string begin, between, end;
    std::vector<CallPiece> call;
  };
  // The text around one parameter: begin KEY text_key_end STRING value_end for strings, and begin KEY json_key_end JSON
  // value_end for other values. A string never contains `stop`, which is part of value_end.
  struct ParameterShape {
    std::string begin, text_key_end, json_key_end, value_end, stop;
  };
  // Returns UNIMPLEMENTED if the format has no calls, or INVALID_ARGUMENT if it cannot write this name.
  absl::StatusOr<CallShape> ShapeOf(std::string_view tool) const;
  // REQUIRES: the format's calls contain kParameters.
  ParameterShape ShapeOfParameters() const;

  // Returns the text before and after the arguments in a turn with one call to `tool`. Returns UNIMPLEMENTED if the
  // format does not write arguments as JSON.
  struct CallFrame {
    std::string before, after;
  };
  absl::StatusOr<CallFrame> FrameOf(std::string_view tool) const;

  const CompiledRow& compiled() const { return row_; }

 private:
  explicit OutputFormat(CompiledRow row) : row_(std::move(row)) {}
  const CompiledRow row_;
};

// Finds a format by name or alias. Returns NOT_FOUND, listing the known names, if there is none.
absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name);
std::vector<std::string> OutputFormatNames();

}  // namespace ingot::text
