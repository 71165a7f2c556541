#include <algorithm>
#include <iterator>

#include "base/printable.h"
#include "text/chat/chat.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

using base::Find;
namespace json = base::json;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(base::CutMessage(what)); }

// Ingot's own field in records: ToolCall::written_id.
constexpr char kWrittenId[] = "written_id";

bool IsNullOrMissing(const json::value* value) { return value == nullptr || value->is_null(); }

// Returns an optional string field, or "" if it is missing or null.
absl::StatusOr<std::string> OptionalString(const json::value& object, const std::string& key) {
  const json::value* field = Find(object, key);
  if (IsNullOrMissing(field)) return std::string();
  if (!field->is_string()) return Bad(absl::StrCat("'", key, "' must be a string"));
  return std::string(field->get_string());
}

absl::StatusOr<std::string> PartsText(const json::array& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const json::value* type = Find(parts[i], "type");
    if (type == nullptr || !type->is_string()) {
      return Bad(absl::StrCat("part ", i, " of 'content' needs a string 'type'"));
    }
    if (type->get_string() != "text") {
      return Bad(absl::StrCat("part ", i, " of 'content' has the type '", std::string(type->get_string()),
                              "'; only text parts are supported"));
    }
    const json::value* piece = Find(parts[i], "text");
    if (piece == nullptr || !piece->is_string()) {
      return Bad(absl::StrCat("part ", i, " of 'content' needs a string 'text'"));
    }
    text += std::string_view(piece->get_string());
  }
  return text;
}

absl::StatusOr<ToolCall> ToolCallFromJson(const json::value& value) {
  const json::value* type = Find(value, "type");
  if (!IsNullOrMissing(type) && !(type->is_string() && type->get_string() == "function")) {
    return Bad("'type' must be \"function\"");
  }
  const json::value* function = Find(value, "function");
  if (function == nullptr || !function->is_object()) return Bad("the object 'function' is missing");
  ToolCall call;
  INGOT_ASSIGN_OR_RETURN(call.id, OptionalString(value, "id"));
  INGOT_ASSIGN_OR_RETURN(call.written_id, OptionalString(value, kWrittenId));
  INGOT_ASSIGN_OR_RETURN(call.name, OptionalString(*function, "name"));
  if (call.name.empty()) return Bad("'function.name' is missing");
  const json::value* arguments = Find(*function, "arguments");
  if (IsNullOrMissing(arguments)) return call;
  if (arguments->is_string()) {
    call.arguments_json = std::string(arguments->get_string());
  } else if (arguments->is_object()) {
    call.arguments_json = PythonJson(*arguments);
  } else {
    return Bad("'function.arguments' must be a string of JSON or an object");
  }
  return call;
}

absl::StatusOr<std::vector<ToolCall>> ToolCallsFromJson(const json::value& message) {
  std::vector<ToolCall> calls;
  const json::value* list = Find(message, "tool_calls");
  if (IsNullOrMissing(list)) return calls;
  if (!list->is_array()) return Bad("'tool_calls' must be an array");
  for (const json::value& item : list->get_array()) {
    auto call = ToolCallFromJson(item);
    if (!call.ok()) return base::Annotate(call.status(), absl::StrCat("tool_calls[", calls.size(), "]"));
    calls.push_back(*std::move(call));
  }
  return calls;
}

constexpr std::string_view kKnownFields[] = {"role",      "content",   "name", "tool_call_id", "reasoning_content",
                                             "reasoning", "tool_calls"};

bool IsKnown(std::string_view field) {
  return std::find(std::begin(kKnownFields), std::end(kKnownFields), field) != std::end(kKnownFields);
}

}  // namespace

absl::StatusOr<Message> MessageFromJson(const json::value& value) {
  if (!value.is_object()) return Bad("a message must be a JSON object");
  Message message;
  INGOT_ASSIGN_OR_RETURN(message.role, OptionalString(value, "role"));
  if (message.role == "developer") message.role = "system";
  if (message.role != "system" && message.role != "user" && message.role != "assistant" && message.role != "tool") {
    return Bad(absl::StrCat("'role' is '", message.role, "'; it must be system, developer, user, assistant, or tool"));
  }
  const json::value* content = Find(value, "content");
  if (IsNullOrMissing(content)) {
    if (message.role != "assistant") return Bad(absl::StrCat("a ", message.role, " message needs 'content'"));
  } else if (content->is_string()) {
    message.content = std::string(content->get_string());
  } else if (content->is_array()) {
    INGOT_ASSIGN_OR_RETURN(message.content, PartsText(content->get_array()));
  } else {
    return Bad("'content' must be a string, an array of parts, or null");
  }
  INGOT_ASSIGN_OR_RETURN(message.name, OptionalString(value, "name"));
  INGOT_ASSIGN_OR_RETURN(message.tool_call_id, OptionalString(value, "tool_call_id"));
  if (message.role == "assistant") {
    INGOT_ASSIGN_OR_RETURN(message.reasoning, OptionalString(value, "reasoning_content"));
    if (message.reasoning.empty()) {
      INGOT_ASSIGN_OR_RETURN(message.reasoning, OptionalString(value, "reasoning"));
    }
    INGOT_ASSIGN_OR_RETURN(message.tool_calls, ToolCallsFromJson(value));
  }
  for (const auto& field : value.get_object()) {
    if (!IsKnown(std::string_view(field.key().data(), field.key().size()))) {
      message.extra.emplace(field.key(), field.value());
    }
  }
  return message;
}

absl::Status CheckTextAlone(std::span<const Message> messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].media.empty()) continue;
    return Bad(absl::StrCat("message ", i, " has a part of type '", messages[i].media[0].kind,
                            "', but the chat format renders only text"));
  }
  return absl::OkStatus();
}

absl::Status CheckTail(std::span<const Message> messages, size_t first_new) {
  if (first_new == 0 || first_new > messages.size() || messages[first_new - 1].role != "assistant") {
    return absl::InvalidArgumentError(
        absl::StrCat("a sampled turn can only be continued after an assistant message, not at message ", first_new,
                     " of ", messages.size()));
  }
  return CheckTextAlone(messages);
}

json::value MessageToJson(const Message& message) {
  json::object out;
  out["role"] = message.role;
  if (message.content.empty() && !message.tool_calls.empty()) {
    out["content"] = nullptr;
  } else {
    out["content"] = message.content;
  }
  if (!message.reasoning.empty()) out["reasoning_content"] = message.reasoning;
  if (!message.tool_calls.empty()) {
    json::array calls;
    for (const ToolCall& call : message.tool_calls) {
      json::object item{{"id", call.id},
                        {"type", "function"},
                        {"function", json::object{{"name", call.name}, {"arguments", call.arguments_json}}}};
      if (!call.written_id.empty()) item[kWrittenId] = call.written_id;
      calls.push_back(std::move(item));
    }
    out["tool_calls"] = std::move(calls);
  }
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) out["name"] = message.name;
  for (const auto& field : message.extra) out.emplace(field.key(), field.value());
  return out;
}

absl::StatusOr<Conversation> ConversationFromJson(const json::value& value) {
  const json::value* messages = Find(value, "messages");
  if (messages == nullptr || !messages->is_array() || messages->get_array().empty()) {
    return Bad("'messages' must be an array with at least one message");
  }
  Conversation conversation;
  for (const json::value& item : messages->get_array()) {
    auto message = MessageFromJson(item);
    if (!message.ok()) {
      return base::Annotate(message.status(), absl::StrCat("messages[", conversation.messages.size(), "]"));
    }
    conversation.messages.push_back(*std::move(message));
  }
  const json::value* variables = Find(value, "chat_template_kwargs");
  if (!IsNullOrMissing(variables)) {
    if (!variables->is_object()) return Bad("'chat_template_kwargs' must be an object");
    conversation.template_variables = variables->get_object();
  }
  const json::value* tools = Find(value, "tools");
  if (IsNullOrMissing(tools)) return conversation;
  if (!tools->is_array()) return Bad("'tools' must be an array");
  for (const json::value& tool : tools->get_array()) {
    const json::value* type = Find(tool, "type");
    const json::value* function = Find(tool, "function");
    const json::value* name = function != nullptr ? Find(*function, "name") : nullptr;
    if (type == nullptr || !type->is_string() || type->get_string() != "function" || name == nullptr ||
        !name->is_string() || name->get_string().empty()) {
      return Bad(absl::StrCat("tools[", conversation.tools.size(),
                              "] must be {\"type\": \"function\", \"function\": {\"name\": ...}}"));
    }
    conversation.tools.push_back(tool);
  }
  return conversation;
}

}  // namespace ingot::text
