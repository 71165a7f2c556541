// Implements POST /v1/messages and /v1/messages/count_tokens in Anthropic's API.
#include <utility>

#include "gateway/api/api_error.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/request_fields.h"
#include "text/python_json.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kMessages[] = "messages";
constexpr size_t kMaxMessages = 1 << 20;
constexpr char kBetweenBlocks[] = "\n";

// Claude Code's first system block contains its build and changes between calls, so it is excluded from the prompt.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

// Client-side tools whose type determines their schema, so clients do not send one. Other typed tools run on the
// vendor's servers and are ignored.
struct TypedTool {
  std::string_view type_prefix;
  const char* description;
  const char* schema;
};
constexpr TypedTool kTypedTools[] = {
    {"bash_", "Runs a command in a bash session that persists between calls.",
     R"({"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean"}}})"},
    {"text_editor_", "Views and edits text files.",
     R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},
         "path":{"type":"string"},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},
         "insert_line":{"type":"integer"},"insert_text":{"type":"string"},
         "view_range":{"type":"array","items":{"type":"integer"}}},"required":["command","path"]})"},
    {"memory_", "Reads and edits memory files under /memories, which persist between conversations.",
     R"({"type":"object","properties":{
         "command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},
         "path":{"type":"string"},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},
         "insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},
         "new_path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}}},"required":["command"]})"},
};
constexpr std::string_view kComputer = "computer_";  // client-side, but its results are images

absl::Status ReadTool(const value& json, const std::string& path, GatewayRequest& request) {
  if (!json.is_object()) return BadRequest(path, absl::StrCat("'", path, "' must be an object"));
  Fields fields(json, path);
  ToolDeclaration tool;
  std::string type = "custom";
  fields.Read("type", type);
  fields.Read("name", tool.name);
  fields.Read("description", tool.description);
  fields.Read("strict", tool.strict);
  INGOT_RETURN_IF_ERROR(fields.status());
  if (std::string_view(type).starts_with(kComputer)) {
    return BadRequest(path, absl::StrCat("'", path, "' has the type '", type,
                                         "', whose results are images, but this model reads only text"));
  }
  if (const value* schema = fields.Get("input_schema")) {
    tool.parameters = *schema;
  } else if (type != "custom") {
    for (const TypedTool& known : kTypedTools) {
      if (!std::string_view(type).starts_with(known.type_prefix)) continue;
      tool.description = known.description;
      tool.parameters = base::json::parse(known.schema);
    }
    if (tool.parameters.is_null()) return absl::OkStatus();
  }
  return AddTool(std::move(tool), path, request);
}

absl::Status ReadToolChoice(Fields& body, GatewayRequest& request) {
  const value* choice = body.Get("tool_choice");
  if (choice == nullptr) return absl::OkStatus();
  Fields fields(*choice, "tool_choice");
  std::string type, name;
  bool one_at_a_time = false;
  fields.Read("type", type);
  fields.Read("name", name);
  fields.Read("disable_parallel_tool_use", one_at_a_time);
  INGOT_RETURN_IF_ERROR(fields.status());
  if (one_at_a_time) request.parallel_tool_calls = false;
  return type == "tool" ? RequireTools({name}, request) : SetToolChoice(type, request);
}

absl::Status ReadSystem(Fields& body, ConversationBuilder& builder) {
  const value* system = body.Get("system");
  if (system == nullptr) return absl::OkStatus();
  std::string text;
  if (const array* blocks = system->if_array()) {
    for (size_t i = 0; i < blocks->size(); ++i) {
      INGOT_ASSIGN_OR_RETURN(const std::string piece, PartText((*blocks)[i], absl::StrCat("system[", i, "]")));
      if (piece.empty() || std::string_view(piece).starts_with(kBillingHeader)) continue;
      text += (text.empty() ? "" : "\n\n") + piece;
    }
  } else {
    INGOT_ASSIGN_OR_RETURN(text, ContentText(system, "system", ""));
  }
  if (text.empty()) return absl::OkStatus();
  builder.Add({.role = "system",
               .content = std::move(text),
               .reasoning = {},
               .tool_calls = {},
               .tool_call_id = {},
               .name = {}});
  return absl::OkStatus();
}

// Reads a user's blocks. Each tool result is a separate message, and so is the text between results.
class UserBlocks {
 public:
  explicit UserBlocks(ConversationBuilder& builder) : builder_(builder) {}

  // The following blocks belong to `role`.
  void Begin(const std::string& role) {
    Flush();
    role_ = role;
  }
  absl::Status Read(const value& block, const std::string& path) {
    Fields fields(block, path);
    std::string type;
    fields.Read("type", type);
    INGOT_RETURN_IF_ERROR(fields.status());
    if (type == "tool_result") return Result(fields, path);
    INGOT_ASSIGN_OR_RETURN(const std::string piece, PartText(block, path));
    if (any_text_) text_ += kBetweenBlocks;
    text_ += piece;
    any_text_ = true;
    return absl::OkStatus();
  }
  void Flush() {
    if (!any_text_) return;
    builder_.Add({.role = role_,
                  .content = std::move(text_),
                  .reasoning = {},
                  .tool_calls = {},
                  .tool_call_id = {},
                  .name = {}});
    text_.clear();
    any_text_ = false;
  }

 private:
  absl::Status Result(Fields& fields, const std::string& path) {
    Flush();
    text::Message message;
    message.role = "tool";
    fields.Read("tool_use_id", message.tool_call_id);
    INGOT_RETURN_IF_ERROR(fields.status());
    INGOT_ASSIGN_OR_RETURN(message.content, ContentText(fields.Get("content"), path + ".content", kBetweenBlocks));
    builder_.Add(std::move(message));
    return absl::OkStatus();
  }

  ConversationBuilder& builder_;
  std::string role_;
  std::string text_;
  bool any_text_ = false;
};

absl::Status ReadAssistantBlock(const value& block, const std::string& path, ConversationBuilder& builder) {
  Fields fields(block, path);
  std::string type, text, signature;
  fields.Read("type", type);
  if (type == "thinking") {
    fields.Read("thinking", text);
    fields.Read("signature", signature);  // only this gateway's signatures are meaningful
    INGOT_RETURN_IF_ERROR(fields.status());
    builder.AddReasoning(text, signature);
    return absl::OkStatus();
  }
  if (type == "redacted_thinking") return fields.status();  // from another server, and unreadable
  if (type == "server_tool_use" || type == "mcp_tool_use" || std::string_view(type).ends_with("_tool_result")) {
    return fields.status();  // from the vendor's own tools, which the model never saw
  }
  if (type == "tool_use") {
    text::ToolCall call;
    fields.Read("id", call.id);
    fields.Read("name", call.name);
    if (call.name.empty()) fields.Wrong("name", "a nonempty string");
    INGOT_RETURN_IF_ERROR(fields.status());
    const value* input = fields.Get("input");
    call.arguments_json = input == nullptr ? "{}" : text::PythonJson(*input);
    builder.AddCall(std::move(call));
    return absl::OkStatus();
  }
  INGOT_RETURN_IF_ERROR(fields.status());
  if (type == "compaction") {  // a summary of the previous turns
    INGOT_ASSIGN_OR_RETURN(text, ContentText(fields.Get("content"), path + ".content", kBetweenBlocks));
  } else {
    INGOT_ASSIGN_OR_RETURN(text, PartText(block, path));
  }
  builder.AddContent(text, "");
  return absl::OkStatus();
}

// Reads a request's messages. Adjacent messages with the same role form one turn.
class Turns {
 public:
  explicit Turns(GatewayRequest& request) : builder_(request), user_(builder_) {}

  absl::Status ReadAll(const array& messages) {
    for (size_t i = 0; i < messages.size(); ++i) {
      INGOT_RETURN_IF_ERROR(Read(messages[i], absl::StrCat(kMessages, "[", i, "]")));
    }
    user_.Flush();
    return absl::OkStatus();
  }

 private:
  static constexpr std::string_view kAssistant = "assistant";

  absl::Status Read(const value& json, const std::string& path) {
    Fields fields(json, path);
    std::string role;
    fields.Read("role", role);
    INGOT_RETURN_IF_ERROR(fields.status());
    if (role == "developer") role = "system";
    if (role != "user" && role != "assistant" && role != "system") {
      return BadRequest(path + ".role", absl::StrCat("'", path, ".role' must be \"user\" or \"assistant\""));
    }
    const value* content = fields.Get("content");
    array text_block;
    const array* blocks = content == nullptr ? nullptr : content->if_array();
    // A user's turn is a message even if it is empty.
    if (blocks == nullptr || (blocks->empty() && role == "user")) {
      INGOT_ASSIGN_OR_RETURN(const std::string text, ContentText(content, path + ".content", ""));
      if (!text.empty() || role != kAssistant) text_block.emplace_back(object{{"type", "text"}, {"text", text}});
      blocks = &text_block;
    }
    Begin(role);
    for (size_t i = 0; i < blocks->size(); ++i) {
      const std::string where = absl::StrCat(path, ".content[", i, "]");
      const value& block = (*blocks)[i];
      INGOT_RETURN_IF_ERROR(role == kAssistant ? ReadAssistantBlock(block, where, builder_) : user_.Read(block, where));
    }
    return absl::OkStatus();
  }
  void Begin(const std::string& role) {
    if (role == role_) return;
    role_ = role;
    user_.Begin(role);
    if (role == kAssistant) builder_.BeginTurn();
  }

  ConversationBuilder builder_;
  UserBlocks user_;
  std::string role_;  // role of the last message
};

// Enables thinking in the reply only if the client requested it, because other clients treat the first block as the
// text.
void ReadThinking(Fields& body, GatewayRequest& request) {
  bool adaptive = false;  // the template decides
  if (const object* thinking = body.Object("thinking")) {
    const value* type = thinking->if_contains("type");
    const bool named = type != nullptr && type->is_string();
    if (named && type->get_string() == "enabled") SetThinking(true, request);
    if (named && type->get_string() == "disabled") SetThinking(false, request);
    adaptive = named && type->get_string() == "adaptive";
  }
  request.emits_reasoning = adaptive || request.thinking.value_or(false);
  ReadFormat(body, "output_format", true, request);
  if (body.Object("output_config") == nullptr) return;
  Fields config(*body.Get("output_config"), "output_config");
  std::string effort;
  config.Read("effort", effort);
  if (!effort.empty()) request.conversation.template_variables["reasoning_effort"] = effort;
  ReadFormat(config, "format", true, request);
  body.Fail(config.status());
}

class Messages : public Dialect {
 public:
  std::string_view name() const override { return "messages"; }
  std::string_view path() const override { return "/messages"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewMessagesRenderer(std::move(head), std::move(request));
  }
  Error ErrorOf(const absl::Status& status) const override { return AnthropicError(status); }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(GatewayRequest request, Read(raw));
    INGOT_RETURN_IF_ERROR(CheckEnd(request));
    return request;
  }

 protected:
  static absl::StatusOr<GatewayRequest> Read(const RawRequest& raw) {
    INGOT_ASSIGN_OR_RETURN(const value json, ParseBody(raw.body));
    GatewayRequest request;
    Fields body(json);
    INGOT_RETURN_IF_ERROR(ReadFields(raw.headers, body, request));
    const array* messages = body.List(kMessages, kMaxMessages);
    INGOT_RETURN_IF_ERROR(body.status());
    if (messages != nullptr) INGOT_RETURN_IF_ERROR(Turns(request).ReadAll(*messages));
    if ((messages == nullptr || messages->empty()) && request.raw_prompts.empty()) {
      return BadRequest(kMessages, "'messages' must have at least one message");
    }
    BeginAnswer(request);
    INGOT_RETURN_IF_ERROR(CheckRequest(request));
    return request;
  }

 private:
  static absl::Status ReadFields(const Headers& headers, Fields& body, GatewayRequest& request) {
    request.object_arguments = true;
    ReadCommon(headers, body, request);
    ReadThinking(body, request);
    ReadLogprobs(body, request);
    const array* tools = body.List("tools", 4096);
    INGOT_RETURN_IF_ERROR(body.status());
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      INGOT_RETURN_IF_ERROR(ReadTool((*tools)[i], absl::StrCat("tools[", i, "]"), request));
    }
    INGOT_RETURN_IF_ERROR(ReadToolChoice(body, request));
    ConversationBuilder builder(request);
    return ReadSystem(body, builder);
  }
};

class CountTokens final : public Messages {
 public:
  std::string_view name() const override { return "messages.count_tokens"; }
  std::string_view path() const override { return "/messages/count_tokens"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead, std::shared_ptr<const GatewayRequest> request) const override {
    return NewCountRenderer(std::move(request), "input_tokens");
  }
  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(GatewayRequest request, Read(raw));
    request.count_only = true;
    request.stream = false;
    return request;
  }
};

}  // namespace

const Dialect& MessagesDialect() {
  static const Messages dialect;
  return dialect;
}

const Dialect& CountTokensDialect() {
  static const CountTokens dialect;
  return dialect;
}

}  // namespace ingot::gateway
