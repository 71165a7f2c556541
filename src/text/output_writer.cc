// The table read the other way: messages to text.
#include <algorithm>
#include <optional>

#include "text/output_format.h"
#include "text/output_pattern.h"
#include "text/python_json.h"
#include "text/python_literal.h"

namespace ingot::text {
namespace {

namespace json = base::json;

// Where arguments would stand in a frame.
struct Written {
  std::string before, after;
  bool split = false;  // the arguments were met, and left out

  std::string& out() { return split ? after : before; }
};

class CallWriter {
 public:
  // `arguments` null: a frame around them.
  CallWriter(const CompiledRow& row, const ToolCall& call, size_t index, const json::value* arguments)
      : row_(row), call_(call), index_(index), arguments_(arguments) {}

  absl::Status Write(const Program& program, Written& written) const {
    for (size_t i = 0; i < program.size(); ++i) {
      const Element& element = program[i];
      if (element.kind == Element::kOptional) {
        i += element.skip;
        continue;
      }
      INGOT_RETURN_IF_ERROR(WriteElement(element, written));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status WriteElement(const Element& element, Written& written) const {
    std::string& out = written.out();
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
        return Arguments(written);
      case Element::kObject:
        return Object(written);
      case Element::kParameters:
        return Parameters(out);
      case Element::kKeywords:
        return Keywords(out);
      default:
        return absl::InternalError("a call's pattern holds what belongs into a parameter");
    }
  }

  std::string Id() const {
    if (!call_.id.empty()) return call_.id;
    return row_.row.id_prefix + call_.name + row_.row.id_index + std::to_string(index_);
  }

  absl::Status Arguments(Written& written) const {
    if (arguments_ == nullptr) {
      written.split = true;
    } else {
      written.out() += call_.arguments_json;
    }
    return absl::OkStatus();
  }

  absl::Status Object(Written& written) const {
    const auto string = [](const std::string& text) { return PythonJson(json::value(json::string(text))); };
    written.out() += '{';
    if (!call_.id.empty() && !row_.row.id_keys.empty()) {
      absl::StrAppend(&written.out(), string(row_.row.id_keys[0]), ": ", string(call_.id), ", ");
    }
    absl::StrAppend(&written.out(), string(row_.row.name_keys[0]), ": ", string(call_.name), ", ",
                    string(row_.row.argument_keys[0]), ": ");
    INGOT_RETURN_IF_ERROR(Arguments(written));
    written.out() += '}';
    return absl::OkStatus();
  }

  absl::Status Parameters(std::string& out) const {
    if (arguments_ == nullptr) return NotJson();
    for (const auto& argument : arguments_->get_object()) {
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
    if (arguments_ == nullptr) return NotJson();
    bool first = true;
    for (const auto& argument : arguments_->get_object()) {
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

  absl::Status NotJson() const {
    return absl::UnimplementedError(
        absl::StrCat("the format '", row_.row.name, "' does not write arguments as JSON: a call cannot be framed"));
  }

  const CompiledRow& row_;
  const ToolCall& call_;
  const size_t index_;
  const json::value* const arguments_;
};

absl::Status CheckName(const CompiledRow& row, std::string_view name, const Program* call) {
  const bool free = call != nullptr && Has(*call, Element::kObject);
  if (!name.empty() && (free || name.find_first_of(" \t\r\n\"'`<>{}()[],;=|\\") == std::string_view::npos)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the format '", row.row.name, "' cannot write the tool name '", base::View(name), "'"));
}

absl::Status NoCalls(const CompiledRow& row) {
  return absl::UnimplementedError(absl::StrCat("the format '", row.row.name, "' has no tool calls"));
}

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

// The section to write: the first that may stand anywhere the content ends, or the first at all.
const Section& SectionFor(const CompiledRow& row, bool after_content) {
  const auto found = std::find_if(row.sections.begin(), row.sections.end(),
                                  [&](const Section& section) { return !(after_content && section.bare); });
  return found == row.sections.end() ? row.sections[0] : *found;
}

}  // namespace

absl::StatusOr<std::string> OutputFormat::WriteCalls(std::string_view content, std::span<const ToolCall> calls) const {
  const ChannelRow& channels = row_.row.channels;
  if (calls.empty()) return channels.used() ? WithContent(row_.write_content, content) : std::string(content);
  if (!channels.used() && row_.sections.empty()) return NoCalls(row_);
  Written written;
  const Section* section = channels.used() ? nullptr : &SectionFor(row_, !content.empty());
  if (section == nullptr) {
    if (!content.empty()) {
      written.before = WithContent(row_.write_preamble, content) + WithContent(row_.write_between, {});
    }
  } else {
    written.before = content;
    if (!content.empty()) written.before += section->before;
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Program& program = section == nullptr ? row_.write_call : section->call;
    INGOT_RETURN_IF_ERROR(CheckName(row_, calls[i].name, &program));
    const auto arguments = base::ParseJson(calls[i].arguments_json);
    if (!arguments.ok() || !arguments->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the arguments of call ", i, " (", calls[i].name, ") are not a JSON object"));
    }
    const CallWriter writer(row_, calls[i], i, &*arguments);
    if (section != nullptr && i == 0) INGOT_RETURN_IF_ERROR(writer.Write(section->begin, written));
    if (i > 0) written.before += section == nullptr ? WithContent(row_.write_between, {}) : section->between;
    INGOT_RETURN_IF_ERROR(writer.Write(program, written));
    if (section != nullptr && i + 1 == calls.size()) INGOT_RETURN_IF_ERROR(writer.Write(section->end, written));
  }
  return std::move(written.before);
}

absl::StatusOr<OutputFormat::CallFrame> OutputFormat::FrameOf(std::string_view tool) const {
  const bool channels = row_.row.channels.used();
  if (!channels && row_.sections.empty()) return NoCalls(row_);
  const Section* section = channels ? nullptr : &SectionFor(row_, false);
  const Program& program = channels ? row_.write_call : section->call;
  INGOT_RETURN_IF_ERROR(CheckName(row_, tool, &program));
  const ToolCall call{.id = "", .name = std::string(tool), .arguments_json = ""};
  const CallWriter writer(row_, call, 0, nullptr);
  Written written;
  if (section != nullptr) INGOT_RETURN_IF_ERROR(writer.Write(section->begin, written));
  INGOT_RETURN_IF_ERROR(writer.Write(program, written));
  if (section != nullptr) INGOT_RETURN_IF_ERROR(writer.Write(section->end, written));
  return CallFrame{std::move(written.before), std::move(written.after)};
}

}  // namespace ingot::text
