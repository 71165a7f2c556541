// OutputFormat: how a model family writes reasoning and tool calls in its output. Every format is a row of a table
// (output_row.h), found by name.
//
// Malformed output. Text that breaks the format stays as the model wrote it, and `malformed` is set. It goes to the
// content; in a streamed call (CallMode::kStreamed) it stays in the arguments. A truncated output is parsed as far as
// possible, and a call that is cut off is malformed.
//
// Arguments. Formats that write JSON keep the model's bytes. Formats that write parameters or Python give one JSON
// object with the parameters in their order, spaced like Python's json.dumps. Each parameter has the type that the
// tool's JSON schema states (JsonOfText in argument_values.h), so parsing needs the tools.
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

// Stands for the content of a begun answer in a prefill.
inline constexpr char kBegunContent[] = "x";

struct ParseOptions {
  std::span<const base::json::value> tools = {};  // OpenAI's form; only read during the call
  // The prefill: the part of this turn that the prompt already contains, such as "<think>\n" (OutputFormat::PrefillOf).
  // Its text is not part of the message.
  std::string_view prefill = {};
  CallMode calls = CallMode::kWhole;
};

// Immutable, thread safe. Formats from FindOutputFormat live as long as the program.
class OutputFormat {
 public:
  // INVALID_ARGUMENT names the fault of the row.
  static absl::StatusOr<std::shared_ptr<const OutputFormat>> Make(const OutputRow& row);

  // The same format for streams of one tokenizer (OutputStream). If a delimiter is one of its tokens, only that token
  // counts, so that ordinary text cannot forge it. Parse() of the result finds no such delimiter, because plain text
  // has no tokens.
  std::shared_ptr<const OutputFormat> ForTokenizer(const Tokenizer& tokenizer) const;

  const std::string& name() const { return row_.row.name; }
  const OutputRow& row() const { return row_.row; }
  // The delimiters that only count as tokens. Empty unless the format comes from ForTokenizer.
  const std::vector<std::string>& tokens() const { return row_.tokens; }

  // Parses a whole output to a message. REQUIRES: special tokens are written out, and the end of the turn is cut off.
  // Never fails. A call has an id if the format writes one.
  ParsedOutput Parse(std::string_view output, const ParseOptions& options = {}) const;

  // The prefill in a generation prompt: from the first delimiter of reasoning or of a channel on; empty without such a
  // delimiter. The turn's header before it has no such delimiter.
  std::string_view PrefillOf(std::string_view generation_prompt) const;

  // Writes content and calls as a turn of this format. Parse gives them back: equal content, and arguments that are
  // equal as JSON. INVALID_ARGUMENT: arguments are not a JSON object, or the format cannot write a name or key.
  // UNIMPLEMENTED: the format has no calls.
  absl::StatusOr<std::string> WriteCalls(std::string_view content, std::span<const ToolCall> calls) const;

  // The shape of a turn of calls, to constrain sampling to a chosen tool: begin CALL [between CALL]... end.
  struct CallPiece {
    enum Kind {
      kText,        // `text`
      kArguments,   // the arguments as one JSON object
      kParameters,  // the arguments one by one, as ParameterShape says
      kKeywords,    // the arguments as keyword arguments of Python
      kIndex,       // a number that distinguishes calls
    };
    Kind kind = kText;
    std::string text = {};
  };
  struct CallShape {
    std::string begin, between, end;
    std::vector<CallPiece> call;
  };
  // The text around one parameter: begin KEY text_key_end STRING value_end, or begin KEY json_key_end JSON value_end
  // for a value that is not a string. A string never contains `stop`, which is part of value_end.
  struct ParameterShape {
    std::string begin, text_key_end, json_key_end, value_end, stop;
  };
  // UNIMPLEMENTED: the format has no calls. INVALID_ARGUMENT: the format cannot write this name.
  absl::StatusOr<CallShape> ShapeOf(std::string_view tool) const;
  // Only for formats whose calls have kParameters.
  ParameterShape ShapeOfParameters() const;

  // The text of a turn with one call of `tool`, before and after its arguments. UNIMPLEMENTED: the format does not
  // write arguments as JSON.
  struct CallFrame {
    std::string before, after;
  };
  absl::StatusOr<CallFrame> FrameOf(std::string_view tool) const;

  const CompiledRow& compiled() const { return row_; }

 private:
  explicit OutputFormat(CompiledRow row) : row_(std::move(row)) {}
  const CompiledRow row_;
};

// Finds a format by name or alias. NOT_FOUND lists the known names.
absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name);
std::vector<std::string> OutputFormatNames();

}  // namespace ingot::text
