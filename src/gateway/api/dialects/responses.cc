// Implements POST /v1/responses and /v1/responses/input_tokens. Responses are not stored. A request that continues a
// conversation must send all of it (store: false) or reference items that this session delivered. previous_response_id
// and similar fields get a 400 that explains this.
#include <utility>

#include "absl/strings/escaping.h"
#include "gateway/api/api_error.h"
#include "gateway/api/client_tools.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/dialects/openai_fields.h"
#include "gateway/api/dialects/responses.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kInput[] = "input";
constexpr char kBetweenParts[] = "\n";
constexpr std::string_view kOutput = "_output";  // type suffix for call results
constexpr const char* kStored[] = {"previous_response_id", "conversation", "prompt", "background"};
constexpr const char* kRepeated[] = {"instructions",
                                     "metadata",
                                     "tools",
                                     "tool_choice",
                                     "max_output_tokens",
                                     "reasoning",
                                     "temperature",
                                     "text",
                                     "top_p",
                                     "user",
                                     "parallel_tool_calls",
                                     "truncation",
                                     "prompt_cache_key",
                                     "safety_identifier"};

// Returns true if a shell tool runs in the vendor's container instead of on the client.
bool IsHosted(Fields& tool) {
  const value* environment = tool.Get("environment");
  const value* type = environment == nullptr ? nullptr : base::Find(*environment, "type");
  return type != nullptr && type->is_string() && *type != "local";
}

absl::Status ReadTool(const value& json, const std::string& path, const std::string& name_space,
                      GatewayRequest& request) {
  if (!json.is_object()) return BadRequest(path, absl::StrCat("'", path, "' must be an object"));
  Fields fields(json, path);
  std::string type = "function";
  fields.Read("type", type);
  ToolDeclaration tool;
  tool.name_space = name_space;
  fields.Read("name", tool.name);
  fields.Read("description", tool.description);
  fields.Read("strict", tool.strict);
  INGOT_RETURN_IF_ERROR(fields.status());
  if (type == "namespace" && name_space.empty()) {
    const array* tools = fields.List("tools", kMaxListed);
    INGOT_RETURN_IF_ERROR(fields.status());
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      INGOT_RETURN_IF_ERROR(ReadTool((*tools)[i], absl::StrCat(path, ".tools[", i, "]"), tool.name, request));
    }
    return absl::OkStatus();
  }
  if (std::string_view(type).starts_with("computer")) {
    return ApiError(400, "unsupported_tool", path,
                    absl::StrCat("'", path, "' has the type '", type,
                                 "', whose results are images, but this model reads only text"));
  }
  const ClientTool* known = FindClientTool(type);
  if (known != nullptr && !IsHosted(fields)) return AddTool(DeclarationOf(*known), path, request);
  if (type != "function" && type != "custom") return absl::OkStatus();  // a tool on the vendor's servers
  tool.kind = type == "custom" ? ToolKind::kCustom : ToolKind::kFunction;
  const value* parameters = fields.Get(type == "custom" ? "format" : "parameters");
  if (parameters != nullptr) tool.parameters = *parameters;
  return AddTool(std::move(tool), path, request);
}

// Reads the items in `input`, with one function per kind.
class Items {
 public:
  explicit Items(GatewayRequest& request) : builder_(request) {}

  void System(std::string text) { AddMessage("system", std::move(text), ""); }
  void User(std::string text) { AddMessage("user", std::move(text), ""); }
  absl::Status ReadAll(const array& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      INGOT_RETURN_IF_ERROR(Read(items[i], absl::StrCat(kInput, "[", i, "]")));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Read(const value& item, const std::string& path) {
    if (!item.is_object()) return BadRequest("input", absl::StrCat(path, " must be an object"));
    Fields fields(item, path);
    std::string type = fields.Get("id") != nullptr && fields.Get("role") == nullptr ? "item_reference" : "message";
    fields.Read("type", type);
    if (type == "message")
      Message(fields);
    else if (type == "reasoning")
      Reasoning(fields);
    else if (type == "function_call")
      FunctionCall(fields);
    else if (type == "custom_tool_call")
      CustomCall(fields);
    else if (const ClientTool* tool = ClientToolOfCall(type))
      ClientCall(*tool, fields);
    else if (std::string_view(type).ends_with(kOutput))
      Output(std::string_view(type).substr(0, type.size() - kOutput.size()), fields);
    else if (type == "item_reference")
      Reference(fields, path);
    return fields.status();  // other items belong to the vendor's tools, which the model never saw
  }
  std::string Text(Fields& fields, std::string_view name, std::string_view separator) {
    auto text = ContentText(fields.Get(name), fields.PathOf(name), separator);
    if (!text.ok()) fields.Fail(text.status());
    return text.ok() ? *std::move(text) : "";
  }
  void AddMessage(const std::string& role, std::string content, std::string tool_call_id) {
    builder_.Add({.role = role,
                  .content = std::move(content),
                  .reasoning = {},
                  .tool_calls = {},
                  .tool_call_id = std::move(tool_call_id),
                  .name = {}});
  }
  void Message(Fields& fields) {
    std::string role, id;
    fields.Read("role", role);
    fields.Read("id", id);
    const bool assistant = role == "assistant";
    std::string text = Text(fields, "content", assistant ? "" : kBetweenParts);
    if (role == "developer") role = "system";
    if (!assistant && role != "system" && role != "user") {
      fields.Wrong("role", "user, assistant, system, or developer");
    }
    if (!fields.status().ok()) return;
    if (assistant) {
      builder_.AddContent(text, id);
    } else {
      AddMessage(role, std::move(text), "");
    }
  }
  void Reasoning(Fields& fields) {
    std::string id, sealed;
    fields.Read("id", id);
    fields.Read("encrypted_content", sealed);
    std::string text = UnsealReasoning(sealed, id);
    for (const char* name : {"content", "summary"}) {
      if (text.empty()) text = Text(fields, name, "");
    }
    if (fields.status().ok()) builder_.AddReasoning(text, id);
  }
  void AddCall(Fields& fields, std::string arguments) {
    text::ToolCall call;
    std::string name, name_space, item;
    fields.Read("call_id", call.id);
    fields.Read("id", item);
    if (call.id.empty()) call.id = item;
    fields.Read("name", name);
    fields.Read("namespace", name_space);
    if (name.empty()) fields.Wrong("name", "a nonempty string");
    call.name = FlatName(name_space, name);
    call.arguments_json = std::move(arguments);
    if (fields.status().ok()) builder_.AddCall(std::move(call));
  }
  void FunctionCall(Fields& fields) {
    std::string arguments;
    ReadArguments(fields, arguments);
    AddCall(fields, std::move(arguments));
  }
  void CustomCall(Fields& fields) {
    std::string input;
    fields.Read("input", input);
    AddCall(fields, CustomArguments(input));
  }
  void ClientCall(const ClientTool& tool, Fields& fields) {
    const object* asked = fields.Object(tool.asked);
    if (asked == nullptr) return fields.Wrong(tool.asked, "an object");
    object named{{"name", tool.type}};
    for (const char* name : {"id", "call_id"}) {
      if (const value* id = fields.Get(name)) named[name] = *id;
    }
    const value call = std::move(named);
    Fields known(call, fields.PathOf(""));
    AddCall(known, ArgumentsOf(tool, *asked));
    fields.Fail(known.status());
  }
  void Reference(Fields& fields, const std::string& path) {
    std::string id;
    fields.Read("id", id);
    const std::string_view prefix = std::string_view(id).substr(0, id.find('_'));
    const PartKind kind = prefix == "rs"    ? PartKind::kReasoning
                          : prefix == "msg" ? PartKind::kContent
                                            : PartKind::kCall;
    if (!fields.status().ok() || builder_.AddReference(kind, id, path)) return;
    fields.Fail(
        ApiError(400, "unsupported_parameter", path,
                 absl::StrCat("'", path, "' refers to an item that this server did not create: send the item itself")));
  }
  // Results from the vendor's tools are ignored because the model never saw their calls.
  void Output(std::string_view call_type, Fields& fields) {
    const ClientTool* tool = ClientToolOfCall(call_type);
    if (tool == nullptr && call_type != "function_call" && call_type != "custom_tool_call") return;
    std::string call_id, id;
    fields.Read("call_id", call_id);
    fields.Read("id", id);
    const value* output = fields.Get("output");
    absl::StatusOr<std::string> text = output != nullptr && output->is_object() ? base::PrintJson(*output)
                                       : tool != nullptr                        ? ResultText(*tool, fields)
                                                         : ContentText(output, fields.PathOf("output"), kBetweenParts);
    if (!text.ok()) fields.Fail(text.status());
    if (fields.status().ok()) AddMessage("tool", *std::move(text), call_id.empty() ? id : call_id);
  }

  ConversationBuilder builder_;
};

void ReadReasoning(Fields& body, GatewayRequest& request) {
  if (body.Object("reasoning") != nullptr) {
    Fields reasoning(*body.Get("reasoning"), "reasoning");
    std::string effort;
    reasoning.Read("effort", effort);
    SetEffort(effort, request);
    body.Fail(reasoning.status());
  }
  if (body.Object("text") != nullptr) {
    Fields text(*body.Get("text"), "text");
    ReadFormat(text, "format", false, request);
    body.Fail(text.status());
  }
}

void ReadIncluded(Fields& body, GatewayRequest& request) {
  std::optional<int64_t> top;
  body.Read("top_logprobs", 0, kMaxTopLogprobs, top);
  request.top_logprobs = static_cast<int32_t>(top.value_or(0));
  request.logprobs = request.top_logprobs > 0;
  const array* include = body.List("include", 1024);
  for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
    const value& name = (*include)[i];
    if (name == "message.output_text.logprobs") request.logprobs = true;
    if (name == "reasoning.encrypted_content") request.seals_reasoning = true;
  }
}

RepeatedFields ReadRepeated(Fields& body) {
  RepeatedFields repeated;
  for (const char* name : kRepeated) {
    if (const value* field = body.Get(name)) repeated.json[name] = *field;
  }
  const std::string text = base::PrintJson(repeated.json);
  repeated.text = text.substr(1, text.size() - 2);
  return repeated;
}

class Responses : public Dialect {
 public:
  std::string_view name() const override { return "responses"; }
  std::string_view path() const override { return "/responses"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewResponsesRenderer(std::move(head), std::move(request));
  }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(const value json, ParseBody(raw.body));
    GatewayRequest request;
    Fields body(json);
    INGOT_RETURN_IF_ERROR(ReadFields(raw.headers, body, request));
    INGOT_RETURN_IF_ERROR(ReadInput(body, request));
    if (request.conversation.messages.empty() && request.raw_prompts.empty()) {
      return BadRequest(kInput, "'input' must be a string or a list of items");
    }
    INGOT_RETURN_IF_ERROR(CheckRequest(request));
    return request;
  }

 private:
  static absl::Status ReadFields(const Headers& headers, Fields& body, GatewayRequest& request) {
    request.prompt_field = kInput;
    ReadCommon(headers, body, request);
    for (const char* name : kStored) {
      const value* stored = body.Get(name);
      if (stored == nullptr || *stored == false) continue;
      body.Fail(ApiError(400, "unsupported_parameter", name,
                         absl::StrCat("'", name,
                                      "' is not supported: this server does not store responses, so send the whole "
                                      "input with every request (store: false)")));
    }
    ReadReasoning(body, request);
    ReadIncluded(body, request);
    const array* tools = body.List("tools", kMaxListed);
    INGOT_RETURN_IF_ERROR(body.status());
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      INGOT_RETURN_IF_ERROR(ReadTool((*tools)[i], absl::StrCat("tools[", i, "]"), "", request));
    }
    INGOT_RETURN_IF_ERROR(ReadToolChoice(body, request));
    request.repeated = ReadRepeated(body);
    return absl::OkStatus();
  }

  static absl::Status ReadInput(Fields& body, GatewayRequest& request) {
    std::string instructions;
    body.Read("instructions", instructions);
    INGOT_RETURN_IF_ERROR(body.status());
    Items items(request);
    if (!instructions.empty()) items.System(std::move(instructions));
    const value* input = body.Get(kInput);
    if (input != nullptr && input->is_string()) {
      items.User(std::string(input->get_string()));
      return absl::OkStatus();
    }
    const array* list = body.List(kInput, kMaxListed);
    INGOT_RETURN_IF_ERROR(body.status());
    return list == nullptr ? absl::OkStatus() : items.ReadAll(*list);
  }
};

// POST /v1/responses/input_tokens: accepts the same request but only counts the prompt tokens.
class InputTokens final : public Responses {
 public:
  std::string_view name() const override { return "responses.input_tokens"; }
  std::string_view path() const override { return "/responses/input_tokens"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead, std::shared_ptr<const GatewayRequest> request) const override {
    return NewCountRenderer(std::move(request), "input_tokens", {{"object", "response.input_tokens"}});
  }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(GatewayRequest request, Responses::Parse(raw));
    request.count_only = true;
    request.stream = false;
    return request;
  }
};

}  // namespace

std::string SealReasoning(const std::string& text, const std::string& id) {
  return absl::StrCat(kSealed, id, ".", absl::Base64Escape(text));
}

std::string UnsealReasoning(const std::string& sealed, std::string& id) {
  const std::string_view all(sealed);
  if (!all.starts_with(kSealed)) return "";
  const size_t dot = sealed.find('.', sizeof(kSealed) - 1);
  if (dot == std::string::npos) return "";
  std::string text;
  if (!absl::Base64Unescape(base::View(all.substr(dot + 1)), &text)) return "";
  id = sealed.substr(sizeof(kSealed) - 1, dot - (sizeof(kSealed) - 1));
  return text::ToUtf8(text);
}

const Dialect& ResponsesDialect() {
  static const Responses dialect;
  return dialect;
}

const Dialect& InputTokensDialect() {
  static const InputTokens dialect;
  return dialect;
}

}  // namespace ingot::gateway
