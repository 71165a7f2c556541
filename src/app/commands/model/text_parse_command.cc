#include "app/commands/model/text_parse_command.h"

#include <memory>
#include <vector>

#include "base/file.h"
#include "text/chat/chat.h"
#include "text/output/output_format.h"

namespace ingot::app {
namespace {

namespace json = base::json;

absl::StatusOr<std::shared_ptr<const text::OutputFormat>> Load(const std::string& format) {
  if (!format.ends_with(".json")) {
    INGOT_ASSIGN_OR_RETURN(const text::OutputFormat* found, text::FindOutputFormat(format));
    // not owned, never destroyed
    return std::shared_ptr<const text::OutputFormat>(found, [](const text::OutputFormat*) {});
  }
  INGOT_ASSIGN_OR_RETURN(const std::string content, base::ReadFile(format));
  const auto parsed = base::ParseJson(content);
  if (!parsed.ok()) return base::Annotate(parsed.status(), format);
  const auto row = text::OutputRowFromJson(*parsed);
  if (!row.ok()) return base::Annotate(row.status(), format);
  auto made = text::OutputFormat::Make(*row);
  if (!made.ok()) return base::Annotate(made.status(), format);
  return made;
}

struct Input {
  std::string text, prefill;
  std::vector<json::value> tools;
  text::CallMode calls = text::CallMode::kWhole;
};

absl::Status ReadField(std::string_view key, const json::value& value, Input& input) {
  if (key == "tools") {
    if (value.is_null()) return absl::OkStatus();
    if (!value.is_array()) return absl::InvalidArgumentError("'tools' must be a list");
    input.tools.assign(value.get_array().begin(), value.get_array().end());
    return absl::OkStatus();
  }
  if (key != "text" && key != "prefill" && key != "calls") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown field '", base::View(key), "'; known fields are text, tools, prefill, and calls"));
  }
  if (!value.is_string()) return absl::InvalidArgumentError(absl::StrCat("'", base::View(key), "' must be a string"));
  const std::string_view text = value.get_string();
  if (key == "text") {
    input.text = text;
  } else if (key == "prefill") {
    input.prefill = text;
  } else if (text == "whole" || text == "streamed" || text == "text") {
    input.calls = text == "whole"      ? text::CallMode::kWhole
                  : text == "streamed" ? text::CallMode::kStreamed
                                       : text::CallMode::kText;
  } else {
    return absl::InvalidArgumentError("'calls' must be \"whole\", \"streamed\", or \"text\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<Input> ReadInput(const json::value& value) {
  Input input;
  if (value.is_string()) {
    input.text = std::string(value.get_string());
    return input;
  }
  if (!value.is_object() || base::Find(value, "text") == nullptr) {
    return absl::InvalidArgumentError("expected a JSON string, or an object with the string 'text'");
  }
  for (const auto& field : value.get_object()) {
    INGOT_RETURN_IF_ERROR(ReadField(std::string_view(field.key()), field.value(), input));
  }
  return input;
}

}  // namespace

absl::StatusOr<std::function<absl::StatusOr<json::value>(const json::value&)>> MakeTextParse(
    const std::string& format) {
  INGOT_ASSIGN_OR_RETURN(const auto loaded, Load(format));
  return [loaded](const json::value& value) -> absl::StatusOr<json::value> {
    INGOT_ASSIGN_OR_RETURN(const Input input, ReadInput(value));
    text::ParsedOutput parsed =
        loaded->Parse(input.text, {.tools = input.tools, .prefill = input.prefill, .calls = input.calls});
    text::Message message;
    message.role = "assistant";
    message.content = std::move(parsed.content);
    message.reasoning = std::move(parsed.reasoning);
    message.tool_calls = std::move(parsed.tool_calls);
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      if (message.tool_calls[i].id.empty()) message.tool_calls[i].id = absl::StrCat("call_", i);
    }
    json::value out = text::MessageToJson(message);
    if (parsed.malformed) out.as_object()["malformed"] = true;
    return out;
  };
}

}  // namespace ingot::app
