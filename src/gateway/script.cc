#include "gateway/script.h"

#include <utility>

#include "absl/strings/str_split.h"
#include "base/json.h"
#include "text/output/output_format.h"

namespace ingot::gateway {
namespace {

namespace json = base::json;

absl::StatusOr<std::string> TextField(const json::value& line, std::string_view name) {
  const json::value* field = base::Find(line, name);
  if (field == nullptr || field->is_null()) return std::string();
  if (!field->is_string()) return absl::InvalidArgumentError(absl::StrCat("'", base::View(name), "' must be a string"));
  return std::string(field->get_string());
}

absl::StatusOr<std::optional<bool>> FlagField(const json::value& line, std::string_view name) {
  const json::value* field = base::Find(line, name);
  if (field == nullptr) return std::optional<bool>();
  if (!field->is_bool())
    return absl::InvalidArgumentError(absl::StrCat("'", base::View(name), "' must be true or false"));
  return std::optional<bool>(field->get_bool());
}

absl::StatusOr<std::vector<text::ToolCall>> ReadCalls(const json::value& line) {
  std::vector<text::ToolCall> read;
  const json::value* calls = base::Find(line, "tool_calls");
  if (calls == nullptr) return read;
  if (!calls->is_array()) return absl::InvalidArgumentError("'tool_calls' must be a list");
  for (const json::value& call : calls->get_array()) {
    INGOT_ASSIGN_OR_RETURN(const std::string name, TextField(call, "name"));
    const json::value* arguments = base::Find(call, "arguments");
    if (name.empty() || arguments == nullptr) {
      return absl::InvalidArgumentError("each of 'tool_calls' needs 'name' and 'arguments'");
    }
    read.push_back(
        {"", name, arguments->is_string() ? std::string(arguments->get_string()) : base::PrintJson(*arguments)});
  }
  return read;
}

// Returns the answer as rendered by the format. Arguments that the format cannot render are inserted unchanged.
absl::StatusOr<std::string> WriteAnswer(const std::string& content, const std::vector<text::ToolCall>& calls,
                                        const text::ChatFormat& format) {
  auto written = format.output()->WriteCalls(content, calls);
  if (written.ok() || calls.empty()) return written;
  std::string text = content;
  for (const text::ToolCall& call : calls) {
    const auto frame = format.output()->FrameOf(call.name);
    if (!frame.ok()) return base::Annotate(written.status(), "use 'output' instead");
    absl::StrAppend(&text, text.empty() ? "" : "\n", frame->before, call.arguments_json, frame->after);
  }
  return text;
}

}  // namespace

absl::StatusOr<ScriptedModel::Line> ScriptedModel::ParseLine(const json::value& json, const text::Tokenizer& tokenizer,
                                                             const text::ChatFormat& format) {
  if (!json.is_object()) return absl::InvalidArgumentError("a line must be a JSON object");
  for (const auto& field : json.get_object()) {
    const std::string name(field.key());
    if (name != "output" && name != "content" && name != "tool_calls" && name != "truncated" && name != "contains" &&
        name != "tools" && name != "repeat") {
      return absl::InvalidArgumentError(absl::StrCat("unknown field '", name, "'"));
    }
  }
  Line line;
  INGOT_ASSIGN_OR_RETURN(std::string output, TextField(json, "output"));
  INGOT_ASSIGN_OR_RETURN(const std::string content, TextField(json, "content"));
  INGOT_ASSIGN_OR_RETURN(const std::vector<text::ToolCall> calls, ReadCalls(json));
  INGOT_ASSIGN_OR_RETURN(line.contains, TextField(json, "contains"));
  INGOT_ASSIGN_OR_RETURN(line.tools, FlagField(json, "tools"));
  INGOT_ASSIGN_OR_RETURN(const std::optional<bool> truncated, FlagField(json, "truncated"));
  INGOT_ASSIGN_OR_RETURN(const std::optional<bool> repeat, FlagField(json, "repeat"));
  line.repeat = repeat.value_or(false);
  if (output.empty()) {
    INGOT_ASSIGN_OR_RETURN(output, WriteAnswer(content, calls, format));
  }
  line.ids = tokenizer.Encode(output, true);
  if (!truncated.value_or(false)) line.ids.push_back(format.end_of_turn_ids().front());
  if (line.ids.empty()) return absl::InvalidArgumentError("the line has nothing to sample");
  return line;
}

absl::StatusOr<std::shared_ptr<ScriptedModel>> ScriptedModel::Parse(std::string_view text,
                                                                    const text::Tokenizer& tokenizer,
                                                                    const text::ChatFormat& format) {
  auto script = std::make_shared<ScriptedModel>();
  base::MutexLock lock(script->mu_);
  int number = 0;
  for (const absl::string_view each : absl::StrSplit(base::View(text), '\n')) {
    const std::string_view written(each.data(), each.size());
    ++number;
    if (written.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto json = base::ParseJson(written);
    auto line = json.ok() ? ParseLine(*json, tokenizer, format) : absl::StatusOr<Line>(json.status());
    if (!line.ok()) return base::Annotate(line.status(), absl::StrCat("line ", number, " of the script"));
    script->lines_.push_back(*std::move(line));
  }
  if (script->lines_.empty()) return absl::InvalidArgumentError("the script has no lines");
  return script;
}

absl::StatusOr<std::vector<int32_t>> ScriptedModel::NextAnswer(const GatewayRequest& request) {
  const auto& messages = request.conversation.messages;
  const std::string& last = messages.empty() ? std::string() : messages.back().content;
  base::MutexLock lock(mu_);
  for (Line& line : lines_) {
    if (line.taken || last.find(line.contains) == std::string::npos) continue;
    if (line.tools.has_value() && *line.tools == request.conversation.tools.empty()) continue;
    line.taken = !line.repeat;
    return line.ids;
  }
  return absl::FailedPreconditionError("no line of the script is left for this request");
}

}  // namespace ingot::gateway
