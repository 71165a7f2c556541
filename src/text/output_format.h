// How a model family writes reasoning and tool calls in what it samples, by name: a row of a table each (output_row.h).
//
// Malformed. What is not as the format says is passed on as the model wrote it and `malformed` is set: in the content,
// or, where a call streams (CallMode::kStreamed), in its arguments. Truncated outputs are parsed as far as they go; a
// call that is cut off is a malformed one.
//
// Arguments. Formats that write JSON: the model's bytes, as they are. Formats that write parameters or Python: one JSON
// object, spaced as Python's json.dumps, made from the parameters in their order; a parameter's type is that of the
// tool's JSON schema (JsonOfText in argument_values.h), so the tools must be given.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/chat.h"
#include "text/output_machine.h"
#include "text/output_row.h"

namespace ingot::text {

struct ParseOptions {
  std::span<const base::json::value> tools = {};  // OpenAI's form; read during the call only
  // What of this turn the prompt has written already, such as "<think>\n" (OutputFormat::PrefillOf). Its own text is
  // not part of the message.
  std::string_view prefill = {};
  CallMode calls = CallMode::kWhole;
};

// Immutable, thread safe. Those of FindOutputFormat live as long as the program.
class OutputFormat {
 public:
  // INVALID_ARGUMENT says what is wrong with the row.
  static absl::StatusOr<std::shared_ptr<const OutputFormat>> Make(const OutputRow& row);

  // The same format for streams of one tokenizer (OutputStream): delimiters that are tokens of it are only recognised
  // as tokens, so that ordinary text cannot forge them. Plain text has no tokens: Parse of the result finds none.
  std::shared_ptr<const OutputFormat> ForTokenizer(const Tokenizer& tokenizer) const;

  const std::string& name() const { return row_.row.name; }
  const OutputRow& row() const { return row_.row; }
  // The delimiters that count as tokens only. Empty but for formats of ForTokenizer.
  const std::vector<std::string>& tokens() const { return row_.tokens; }

  // Whole output (special tokens written out, end-of-turn cut off) to message. Never fails. A call has an id where the
  // format writes one.
  ParsedOutput Parse(std::string_view output, const ParseOptions& options = {}) const;

  // What of a turn a generation prompt (the text that add_generation_prompt adds) has written: from the first delimiter
  // of reasoning or of a channel on; empty if there is none. It begins with the turn's header, which has none.
  std::string_view PrefillOf(std::string_view generation_prompt) const;

  // Content and calls as a turn of this format; Parse gives them back (content as it stands, arguments equal as JSON).
  // INVALID_ARGUMENT: arguments are no JSON object, or a name or a key that the format cannot write. UNIMPLEMENTED: the
  // format has no calls.
  absl::StatusOr<std::string> WriteCalls(std::string_view content, std::span<const ToolCall> calls) const;

  // How a turn of calls is written, for sampling under a forced choice of tool: begin CALL [between CALL]... end.
  struct CallPiece {
    enum Kind {
      kText,        // text
      kArguments,   // the arguments, as one JSON object
      kParameters,  // the arguments, each as ParameterShape says
      kKeywords,    // the arguments, as keyword arguments of Python
      kIndex,       // a number that tells calls apart
    };
    Kind kind = kText;
    std::string text = {};
  };
  struct CallShape {
    std::string begin, between, end;
    std::vector<CallPiece> call;
  };
  // What a parameter is written between: begin KEY text_key_end STRING value_end, or json_key_end and JSON for what is
  // no string. No string contains `stop`, which is part of value_end.
  struct ParameterShape {
    std::string begin, text_key_end, json_key_end, value_end, stop;
  };
  // UNIMPLEMENTED where the format has no calls. INVALID_ARGUMENT: a name that it cannot write.
  absl::StatusOr<CallShape> ShapeOf(std::string_view tool) const;
  // Of formats whose calls have kParameters.
  ParameterShape ShapeOfParameters() const;

  // A turn that is one call of `tool`, around its arguments. UNIMPLEMENTED where they are not JSON.
  struct CallFrame {
    std::string before, after;
  };
  absl::StatusOr<CallFrame> FrameOf(std::string_view tool) const;

  const CompiledRow& compiled() const { return row_; }

 private:
  explicit OutputFormat(CompiledRow row) : row_(std::move(row)) {}
  const CompiledRow row_;
};

// By name or alias. NOT_FOUND lists the known names.
absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name);
std::vector<std::string> OutputFormatNames();

}  // namespace ingot::text
