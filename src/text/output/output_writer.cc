// Writes messages as text, using the same rows as the parser.
#include <algorithm>
#include <optional>

#include "base/big_integer.h"
#include "text/output/output_format.h"
#include "text/output/output_pattern.h"
#include "text/output/output_shape.h"
#include "text/output/python_literal.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

namespace json = base::json;

class CallWriter {
 public:
  CallWriter(const CompiledRow& row, const ToolCall& call, size_t index, const json::value& arguments)
      : row_(row), call_(call), index_(index), arguments_(arguments) {}

  absl::Status Write(const Program& program, std::string& out) const {
    for (size_t i = 0; i < program.size(); ++i) {
      const Element& element = program[i];
      if (element.kind == Element::kOptional) {
        i += element.skip;
        continue;
      }
      INGOT_RETURN_IF_ERROR(WriteElement(element, out));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status WriteElement(const Element& element, std::string& out) const {
    switch (element.kind) {
      case Element::kLiteral:
        AppendText(element.text, out);
        return absl::OkStatus();
      case Element::kSpace:
        out += element.text;
        return absl::OkStatus();
      case Element::kName:
        out += call_.name;
        return absl::OkStatus();
      case Element::kId:
        out += Id();
        return absl::OkStatus();
      case Element::kJson:
        out += call_.arguments_json;
        return absl::OkStatus();
      case Element::kObject:
        Object(out);
        return absl::OkStatus();
      case Element::kParameters:
        return Parameters(out);
      case Element::kKeywords:
        return Keywords(out);
      default:
        return absl::InternalError("a call's pattern has an element that belongs in a parameter");
    }
  }

  std::string Id() const {
    if (!call_.id.empty()) return call_.id;
    return row_.row.id_prefix + call_.name + row_.row.id_index + std::to_string(index_);
  }

  void Object(std::string& out) const {
    const auto string = [](const std::string& text) { return PythonJson(json::value(json::string(text))); };
    out += '{';
    if (!call_.id.empty() && !row_.row.id_keys.empty()) {
      absl::StrAppend(&out, string(row_.row.id_keys[0]), ": ", string(call_.id), ", ");
    }
    absl::StrAppend(&out, string(row_.row.name_keys[0]), ": ", string(call_.name), ", ",
                    string(row_.row.argument_keys[0]), ": ", call_.arguments_json, "}");
  }

  absl::Status Parameters(std::string& out) const {
    for (const auto& argument : arguments_.get_object()) {
      const std::string key(argument.key());
      const json::value& value = argument.value();
      for (size_t i = 0; i < row_.parameter.size(); ++i) {
        const Element& element = row_.parameter[i];
        if (element.kind == Element::kKey) {
          const std::string end = TextOf(row_.parameter[i + 1].text);
          if (key.empty() || key.find(end) != std::string::npos || key.find('\n') != std::string::npos) {
            return absl::InvalidArgumentError(
                absl::StrCat("the format '", row_.row.name, "' cannot write the parameter name '", key, "'"));
          }
          out += key;
        } else if (element.kind == Element::kIsString) {
          out += value.is_string() ? "true" : "false";
        } else if (element.kind == Element::kValue) {
          out += element.pad_before;
          out += value.is_string() ? std::string(value.get_string()) : PythonJson(value);
          out += element.pad_after;
          AppendText(element.text, out);
        } else if (element.kind == Element::kLiteral) {
          AppendText(element.text, out);
        } else if (element.kind == Element::kSpace) {
          out += element.text;
        }
      }
      const std::string& pattern = row_.row.parameter;
      out += pattern.substr(pattern.find_last_not_of(kWhiteSpace) + 1);
    }
    return absl::OkStatus();
  }

  absl::Status Keywords(std::string& out) const {
    bool first = true;
    for (const auto& argument : arguments_.get_object()) {
      const std::string key(argument.key());
      if (key.empty() || key.find_first_of(" \t\r\n=,()[]{}'\"<>.-") != std::string::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat("the format '", row_.row.name, "' cannot write the parameter name '", key, "'"));
      }
      if (!first) out += ", ";
      first = false;
      absl::StrAppend(&out, key, "=", PythonOfJson(argument.value()));
    }
    return absl::OkStatus();
  }

  const CompiledRow& row_;
  const ToolCall& call_;
  const size_t index_;
  const json::value& arguments_;
};

std::string WithContent(const Program& program, std::string_view content) {
  std::string out;
  for (const Element& element : program) {
    if (element.kind == Element::kContent) {
      out += content;
    } else {
      AppendText(element.text, out);
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> OutputFormat::WriteCalls(std::string_view content, std::span<const ToolCall> calls) const {
  const ChannelRow& channels = row_.row.channels;
  if (calls.empty()) return channels.used() ? WithContent(row_.write_content, content) : std::string(content);
  if (!channels.used() && row_.sections.empty()) return NoCalls(row_);
  std::string written;
  const Section* section = channels.used() ? nullptr : &SectionFor(row_, !content.empty());
  if (section == nullptr) {
    if (!content.empty()) {
      written = WithContent(row_.write_preamble, content) + WithContent(row_.write_between, {});
    }
  } else {
    written = content;
    if (!content.empty()) written += section->before;
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Program& program = section == nullptr ? row_.write_call : section->call;
    INGOT_RETURN_IF_ERROR(CheckName(row_, calls[i].name, program));
    const auto arguments = base::ParseJsonExactly(calls[i].arguments_json);
    if (!arguments.ok() || !arguments->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the arguments of call ", i, " (", calls[i].name, ") are not a JSON object"));
    }
    const CallWriter writer(row_, calls[i], i, *arguments);
    if (section != nullptr && i == 0) INGOT_RETURN_IF_ERROR(writer.Write(section->begin, written));
    if (i > 0) written += section == nullptr ? WithContent(row_.write_between, {}) : section->between;
    INGOT_RETURN_IF_ERROR(writer.Write(program, written));
    if (section != nullptr && i + 1 == calls.size()) INGOT_RETURN_IF_ERROR(writer.Write(section->end, written));
  }
  return written;
}

}  // namespace ingot::text
