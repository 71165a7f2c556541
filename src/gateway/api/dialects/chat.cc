// Implements POST /v1/chat/completions.
#include <utility>

#include "gateway/api/api_error.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/dialects/openai_fields.h"
#include "gateway/api/request_fields.h"
#include "text/python_json.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

// Tools of type "function" and "custom" have the same layout, each under its own key.
absl::Status ReadTool(const value& json, const std::string& path, GatewayRequest& request) {
  Fields fields(json, path);
  std::string type = "function";
  fields.Read("type", type);
  const object* inner = type == "function" || type == "custom" ? fields.Object(type) : nullptr;
  INGOT_RETURN_IF_ERROR(fields.status());
  if (inner == nullptr) {
    return BadRequest(path, absl::StrCat(path, " must be {\"type\":\"function\",\"function\":{\"name\":...}}"));
  }
  Fields body(*fields.Get(type), fields.PathOf(type));
  ToolDeclaration tool;
  tool.kind = type == "custom" ? ToolKind::kCustom : ToolKind::kFunction;
  body.Read("name", tool.name);
  body.Read("description", tool.description);
  body.Read("strict", tool.strict);
  const value* parameters = body.Get(type == "custom" ? "format" : "parameters");
  if (parameters != nullptr) tool.parameters = *parameters;
  INGOT_RETURN_IF_ERROR(body.status());
  return AddTool(std::move(tool), path, request);
}

// Reads the older format for tools and tool choice.
absl::Status ReadFunctions(Fields& body, GatewayRequest& request) {
  const base::json::array* functions = body.List("functions", kMaxListed);
  INGOT_RETURN_IF_ERROR(body.status());
  for (size_t i = 0; functions != nullptr && i < functions->size(); ++i) {
    Fields fields((*functions)[i], absl::StrCat("functions[", i, "]"));
    ToolDeclaration tool;
    tool.kind = ToolKind::kOldFunction;
    fields.Read("name", tool.name);
    fields.Read("description", tool.description);
    if (const value* parameters = fields.Get("parameters")) tool.parameters = *parameters;
    INGOT_RETURN_IF_ERROR(fields.status());
    INGOT_RETURN_IF_ERROR(AddTool(std::move(tool), absl::StrCat("functions[", i, "]"), request));
    request.parallel_tool_calls = false;  // a message can have only one
  }
  const value* choice = body.Get("function_call");
  if (choice == nullptr) return absl::OkStatus();
  if (const value* name = base::Find(*choice, "name"); name != nullptr && name->is_string()) {
    const std::string chosen(name->get_string());
    if (request.FindTool(chosen) != nullptr) return RequireTools({chosen}, request);
  } else if (*choice == "auto" || *choice == "none") {
    return SetToolChoice(choice->get_string(), request);
  }
  body.Wrong("function_call", "\"auto\", \"none\", or one of 'functions'");
  return body.status();
}

// Reads a call's name and arguments. They are in a tool call's `function` or `custom`, or in the older function_call.
absl::Status ReadCall(const value& json, const std::string& path, bool custom, text::ToolCall& call) {
  Fields fields(json, path);
  fields.Read("name", call.name);
  if (call.name.empty()) fields.Wrong("name", "a nonempty string");
  const value* arguments = fields.Get(custom ? "input" : "arguments");
  if (custom && arguments != nullptr && arguments->is_string()) {
    call.arguments_json = CustomArguments(arguments->get_string());
  } else if (arguments != nullptr && arguments->is_string()) {
    ReadArguments(fields, call.arguments_json);
  } else if (arguments != nullptr && arguments->is_object()) {
    call.arguments_json = text::PythonJson(*arguments);
  } else if (arguments != nullptr) {
    fields.Wrong("arguments", "a JSON string or an object");
  }
  return fields.status();
}

absl::Status ReadCalls(const value& message, const std::string& path, ConversationBuilder& builder) {
  Fields fields(message, path);
  const base::json::array* calls = fields.List("tool_calls", kMaxListed);
  INGOT_RETURN_IF_ERROR(fields.status());
  if (calls == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string where = absl::StrCat(path, ".tool_calls[", i, "]");
    Fields outer((*calls)[i], where);
    const char* type = outer.Get("custom") != nullptr ? "custom" : "function";
    const object* body = outer.Object(type);
    if (body == nullptr) outer.Wrong(type, "an object");
    INGOT_RETURN_IF_ERROR(outer.status());
    text::ToolCall call;
    outer.Read("id", call.id);
    INGOT_RETURN_IF_ERROR(outer.status());
    INGOT_RETURN_IF_ERROR(ReadCall(*outer.Get(type), outer.PathOf(type), type == std::string_view("custom"), call));
    builder.AddCall(std::move(call));
  }
  return absl::OkStatus();
}

// Makes an id for a function_call, which has none, from its message index.
std::string FunctionCallId(size_t message) { return absl::StrCat("function_call[", message, "]"); }

// Reads message `place`. `function_call` is the id of the last function_call. Its result gets the same id.
absl::Status ReadMessage(const value& json, size_t place, std::string& function_call, ConversationBuilder& builder) {
  const std::string path = absl::StrCat("messages[", place, "]");
  if (!json.is_object()) return BadRequest("messages", absl::StrCat(path, " must be an object"));
  Fields fields(json, path);
  text::Message message;
  fields.Read("role", message.role);
  fields.Read("name", message.name);
  fields.Read("tool_call_id", message.tool_call_id);
  std::string reasoning;
  for (const char* name : {"reasoning", "reasoning_content"}) fields.Read(name, reasoning);
  INGOT_RETURN_IF_ERROR(fields.status());
  INGOT_ASSIGN_OR_RETURN(message.content, ContentText(fields.Get("content"), fields.PathOf("content"), ""));
  if (message.role == "developer") message.role = "system";  // the newer and older names for the same role
  if (message.role == "function") {
    message.role = "tool";
    if (message.tool_call_id.empty()) message.tool_call_id = function_call;
  }
  if (message.role == "system" || message.role == "user" || message.role == "tool") {
    builder.Add(std::move(message));
    return absl::OkStatus();
  }
  if (message.role != "assistant") {
    return BadRequest("messages", absl::StrCat(path, ".role must be system, developer, user, assistant, or tool"));
  }
  builder.BeginTurn();
  if (!reasoning.empty()) builder.AddReasoning(reasoning, "");
  if (!message.content.empty()) builder.AddContent(message.content, "");
  if (fields.Object("function_call") != nullptr) {
    text::ToolCall call;
    call.id = function_call = FunctionCallId(place);
    INGOT_RETURN_IF_ERROR(ReadCall(*fields.Get("function_call"), fields.PathOf("function_call"), false, call));
    builder.AddCall(std::move(call));
  }
  INGOT_RETURN_IF_ERROR(fields.status());
  return ReadCalls(json, path, builder);
}

class Chat final : public Dialect {
 public:
  std::string_view name() const override { return "chat.completions"; }
  std::string_view path() const override { return "/chat/completions"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewChatRenderer(std::move(head), std::move(request));
  }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(const value json, ParseBody(raw.body));
    GatewayRequest request;
    Fields body(json);
    INGOT_RETURN_IF_ERROR(ReadFields(raw.headers, body, request));
    INGOT_RETURN_IF_ERROR(ReadMessages(body, request));
    INGOT_RETURN_IF_ERROR(CheckRequest(request));
    return request;
  }

 private:
  static absl::Status ReadFields(const Headers& headers, Fields& body, GatewayRequest& request) {
    ReadCommon(headers, body, request);
    ReadChoices(body, request);
    ReadLogprobs(body, request);
    ReadFormat(body, "response_format", false, request);
    const base::json::array* tools = body.List("tools", kMaxListed);
    INGOT_RETURN_IF_ERROR(body.status());
    INGOT_RETURN_IF_ERROR(ReadFunctions(body, request));
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      INGOT_RETURN_IF_ERROR(ReadTool((*tools)[i], absl::StrCat("tools[", i, "]"), request));
    }
    return ReadToolChoice(body, request);
  }

  static absl::Status ReadMessages(Fields& body, GatewayRequest& request) {
    const base::json::array* messages = body.List("messages", kMaxListed);
    INGOT_RETURN_IF_ERROR(body.status());
    ConversationBuilder builder(request);
    std::string function_call;
    for (size_t i = 0; messages != nullptr && i < messages->size(); ++i) {
      INGOT_RETURN_IF_ERROR(ReadMessage((*messages)[i], i, function_call, builder));
    }
    return absl::OkStatus();
  }
};

}  // namespace

const Dialect& ChatDialect() {
  static const Chat dialect;
  return dialect;
}

}  // namespace ingot::gateway
