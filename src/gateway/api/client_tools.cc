#include "gateway/api/client_tools.h"

#include "base/big_integer.h"
#include "gateway/api/api_error.h"
#include "text/output/readable_object.h"
#include "text/python_json.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr ClientTool kClientTools[] = {
    {ToolKind::kLocalShell, "local_shell", "Runs a command on the user's machine and returns its output.",
     R"({"type":"object","properties":{
         "command":{"type":"array","items":{"type":"string"},"description":"The command and its arguments."},
         "working_directory":{"type":"string"},
         "timeout_ms":{"type":"integer"}},"required":["command"]})",
     "local_shell_call", "lsh", "action", R"({"type":"exec","command":[],"env":{}})"},
    {ToolKind::kShell, "shell", "Runs commands in a shell on the user's machine and returns their output.",
     R"({"type":"object","properties":{
         "commands":{"type":"array","items":{"type":"string"},"description":"Command lines for the shell, each run separately."},
         "timeout_ms":{"type":"integer"},
         "max_output_length":{"type":"integer","description":"Characters of output to return."}},"required":["commands"]})",
     "shell_call", "sh", "action", R"({"commands":[],"timeout_ms":null,"max_output_length":null})"},
    {ToolKind::kApplyPatch, "apply_patch", "Creates, updates or deletes a file on the user's machine.",
     R"({"type":"object","properties":{
         "type":{"type":"string","enum":["create_file","update_file","delete_file"]},
         "path":{"type":"string"},
         "diff":{"type":"string","description":"The changes as a V4A diff; not for delete_file."}},
         "required":["type","path"]})",
     "apply_patch_call", "apc", "operation", R"({"type":"update_file","path":"","diff":""})"},
};

template <typename Matches>
const ClientTool* Find(const Matches& matches) {
  for (const ClientTool& tool : kClientTools) {
    if (matches(tool)) return &tool;
  }
  return nullptr;
}

// Returns the output of a shell command, with its exit code or timeout unless it succeeded.
absl::StatusOr<std::string> CommandText(const value& said, const std::string& path) {
  Fields fields(said, path);
  std::string text, more, end;
  fields.Read("stdout", text);
  fields.Read("stderr", more);
  const auto line = [&text](std::string_view next) {
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    text += next;
  };
  if (!more.empty()) line(more);
  if (fields.Object("outcome") != nullptr) {
    Fields outcome(*fields.Get("outcome"), fields.PathOf("outcome"));
    std::optional<int64_t> code;
    outcome.Read("type", end);
    outcome.Read("exit_code", INT64_MIN, INT64_MAX, code);
    fields.Fail(outcome.status());
    if (end == "timeout") line("[timed out]");
    if (code.value_or(0) != 0) line(absl::StrCat("[exit code ", *code, "]"));
  }
  INGOT_RETURN_IF_ERROR(fields.status());
  return text;
}

}  // namespace

const ClientTool* FindClientTool(std::string_view type) {
  return Find([&](const ClientTool& tool) { return type == tool.type; });
}

const ClientTool* FindClientTool(ToolKind kind) {
  return Find([&](const ClientTool& tool) { return kind == tool.kind; });
}

const ClientTool* ClientToolOfCall(std::string_view call_type) {
  return Find([&](const ClientTool& tool) { return call_type == tool.call_type; });
}

ToolDeclaration DeclarationOf(const ClientTool& tool) {
  return {tool.kind, tool.type, "", tool.description, base::json::parse(tool.schema)};
}

object AskedOf(const ClientTool& tool, const std::string& arguments_json) {
  object asked = base::json::parse(tool.blank).as_object();
  const auto arguments = base::ParseJsonExactly(arguments_json);
  if (!arguments.ok() || !arguments->is_object()) return asked;
  if (tool.kind == ToolKind::kApplyPatch) return arguments->get_object();
  for (const auto& [name, field] : arguments->get_object()) {
    if (name != "type" || tool.kind != ToolKind::kLocalShell) asked[name] = field;  // there is only one type
  }
  if (value* line = asked.if_contains("command"); line != nullptr && line->is_string()) {
    *line = array{"bash", "-lc", line->get_string()};
  }
  if (value* line = asked.if_contains("commands"); line != nullptr && line->is_string()) {
    *line = array{line->get_string()};
  }
  return asked;
}

std::string ArgumentsOf(const ClientTool& tool, const object& asked) {
  object arguments;
  for (const auto& [name, field] : asked) {
    if (name == "type" && tool.kind == ToolKind::kLocalShell) continue;  // there is only one type
    if (field.is_null() || (field.is_object() && field.get_object().empty())) continue;
    arguments[name] = field;
  }
  return text::PythonJson(arguments);
}

absl::StatusOr<std::string> ResultText(const ClientTool& tool, Fields& item) {
  const value* output = item.Get("output");
  const std::string path = item.PathOf("output");
  if (tool.kind == ToolKind::kShell && output != nullptr && output->is_array()) {
    std::string all;
    for (size_t i = 0; i < output->get_array().size(); ++i) {
      INGOT_ASSIGN_OR_RETURN(const std::string text,
                             CommandText(output->get_array()[i], absl::StrCat(path, "[", i, "]")));
      if (!all.empty() && !all.ends_with('\n')) all += '\n';
      all += text;
    }
    return all;
  }
  INGOT_ASSIGN_OR_RETURN(std::string text, ContentText(output, path, "\n"));
  if (tool.kind != ToolKind::kApplyPatch) return text;
  std::string status;
  item.Read("status", status);
  INGOT_RETURN_IF_ERROR(item.status());
  if (text.empty()) return status;
  return status == "failed" ? "failed: " + text : text;
}

std::string EchoedArguments(const GatewayRequest& request, const text::ToolCall& call) {
  if (request.object_arguments) return text::ReadableObjectText(call.arguments_json);
  const Tool* tool = request.FindTool(call.name);
  if (tool == nullptr) return call.arguments_json;
  if (tool->kind == ToolKind::kCustom) return CustomArguments(CustomInput(call.arguments_json));
  const ClientTool* own = FindClientTool(tool->kind);
  return own == nullptr ? call.arguments_json : ArgumentsOf(*own, AskedOf(*own, call.arguments_json));
}

}  // namespace ingot::gateway
