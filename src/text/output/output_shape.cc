// Builds the shape of calls around arguments that have not been sampled yet.
#include "text/output/output_shape.h"

#include <algorithm>

#include "text/output/output_format.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

using CallPiece = OutputFormat::CallPiece;

// Appends text. Adjacent text forms one piece.
void AddText(std::string_view text, std::vector<CallPiece>& pieces) {
  if (text.empty()) return;
  if (pieces.empty() || pieces.back().kind != CallPiece::kText) pieces.push_back({});
  pieces.back().text += text;
}

std::string Quoted(const std::string& text) { return PythonJson(base::json::value(base::json::string(text))); }

absl::StatusOr<std::vector<CallPiece>> PiecesOf(const CompiledRow& row, const Program& program,
                                                const std::string& tool) {
  std::vector<CallPiece> pieces;
  for (size_t i = 0; i < program.size(); ++i) {
    const Element& element = program[i];
    switch (element.kind) {
      case Element::kOptional:
        i += element.skip;
        break;
      case Element::kLiteral:
        AddText(TextOf(element.text), pieces);
        break;
      case Element::kSpace:
        AddText(element.text, pieces);
        break;
      case Element::kName:
        AddText(tool, pieces);
        break;
      case Element::kId:
        AddText(row.row.id_prefix + tool + row.row.id_index, pieces);
        pieces.push_back({CallPiece::kIndex});
        break;
      case Element::kObject:
        AddText(absl::StrCat("{", Quoted(row.row.name_keys[0]), ": ", Quoted(tool), ", ",
                             Quoted(row.row.argument_keys[0]), ": "),
                pieces);
        pieces.push_back({CallPiece::kArguments});
        AddText("}", pieces);
        break;
      case Element::kJson:
        pieces.push_back({CallPiece::kArguments});
        break;
      case Element::kParameters:
        pieces.push_back({CallPiece::kParameters});
        break;
      case Element::kKeywords:
        pieces.push_back({CallPiece::kKeywords});
        break;
      default:
        return absl::InternalError("a call's pattern has an element that belongs in a parameter");
    }
  }
  return pieces;
}

std::string TextIn(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.size(); ++i) {
    if (program[i].kind == Element::kOptional) {
      i += program[i].skip;
    } else {
      text += program[i].kind == Element::kSpace ? program[i].text : TextOf(program[i].text);
    }
  }
  return text;
}

}  // namespace

absl::Status CheckName(const CompiledRow& row, std::string_view name, const Program& call) {
  const bool free = Has(call, Element::kObject);
  if (!name.empty() && (free || name.find_first_of(" \t\r\n\"'`<>{}()[],;=|\\") == std::string_view::npos)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the format '", row.row.name, "' cannot write the tool name '", base::View(name), "'"));
}

absl::Status NoCalls(const CompiledRow& row) {
  return absl::UnimplementedError(absl::StrCat("the format '", row.row.name, "' has no tool calls"));
}

const Section& SectionFor(const CompiledRow& row, bool after_content) {
  const auto found = std::find_if(row.sections.begin(), row.sections.end(),
                                  [&](const Section& section) { return !(after_content && section.bare); });
  return found == row.sections.end() ? row.sections[0] : *found;
}

absl::StatusOr<OutputFormat::CallShape> OutputFormat::ShapeOf(std::string_view tool) const {
  const bool channels = row_.row.channels.used();
  if (!channels && row_.sections.empty()) return NoCalls(row_);
  const Section* section = channels ? nullptr : &SectionFor(row_, false);
  const Program& program = channels ? row_.write_call : section->call;
  INGOT_RETURN_IF_ERROR(CheckName(row_, tool, program));
  CallShape shape;
  if (channels) {
    shape.between = TextIn(row_.write_between);
  } else {
    shape.begin = TextIn(section->begin);
    shape.between = section->between;
    shape.end = TextIn(section->end);
  }
  INGOT_ASSIGN_OR_RETURN(shape.call, PiecesOf(row_, program, std::string(tool)));
  return shape;
}

OutputFormat::ParameterShape OutputFormat::ShapeOfParameters() const {
  ParameterShape shape;
  std::string* text = &shape.begin;  // receives the pattern's text
  for (const Element& element : row_.parameter) {
    if (element.kind == Element::kKey) {
      text = &shape.text_key_end;
    } else if (element.kind == Element::kIsString) {
      shape.json_key_end = shape.text_key_end + "false";
      shape.text_key_end += "true";
    } else if (element.kind == Element::kValue) {
      shape.text_key_end += element.pad_before;
      if (!shape.json_key_end.empty()) shape.json_key_end += element.pad_before;
      shape.stop = TextOf(element.text);
      shape.value_end = element.pad_after + shape.stop;
      text = &shape.value_end;
    } else {
      const std::string piece = element.kind == Element::kSpace ? element.text : TextOf(element.text);
      *text += piece;
      if (text == &shape.text_key_end && !shape.json_key_end.empty()) shape.json_key_end += piece;
    }
  }
  if (shape.json_key_end.empty()) shape.json_key_end = shape.text_key_end;
  const std::string& pattern = row_.row.parameter;
  shape.value_end += pattern.substr(pattern.find_last_not_of(kWhiteSpace) + 1);
  return shape;
}

absl::StatusOr<OutputFormat::CallFrame> OutputFormat::FrameOf(std::string_view tool) const {
  INGOT_ASSIGN_OR_RETURN(const CallShape shape, ShapeOf(tool));
  CallFrame frame{shape.begin, ""};
  std::string* text = &frame.before;
  for (const CallPiece& piece : shape.call) {
    if (piece.kind == CallPiece::kParameters || piece.kind == CallPiece::kKeywords) {
      return absl::UnimplementedError(absl::StrCat("the format '", row_.row.name,
                                                   "' does not write arguments as JSON, so a call cannot be framed"));
    }
    if (piece.kind == CallPiece::kArguments) text = &frame.after;
    *text += piece.kind == CallPiece::kIndex ? "0" : piece.text;
  }
  frame.after += shape.end;
  return frame;
}

}  // namespace ingot::text
