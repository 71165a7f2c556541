// POST /v1/messages and /v1/messages/count_tokens, as Anthropic words them.
#include <utility>

#include "gateway/api_error.h"
#include "gateway/conversation_builder.h"
#include "gateway/dialects/dialects.h"
#include "gateway/dialects/list_dialect.h"
#include "gateway/request_fields.h"
#include "text/python_json.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kMessages[] = "messages";
constexpr size_t kMaxMessages = 1 << 20;
constexpr char kBetweenBlocks[] = "\n";

// Claude Code's first system block says which build it is, not what the model should do, and changes between calls.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

// Tools whose arguments the API knows by their type: clients send no schema. Others of that kind run on the vendor's
// servers and are left out.
struct TypedTool {
  std::string_view type_prefix;
  const char* description;
  const char* schema;
};
constexpr TypedTool kTypedTools[] = {
    {"bash_", "Runs a command in a bash session that lasts over calls.",
     R"({"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean"}}})"},
    {"text_editor_", "Views and edits text files.",
     R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},
         "path":{"type":"string"},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},
         "insert_line":{"type":"integer"},"insert_text":{"type":"string"},
         "view_range":{"type":"array","items":{"type":"integer"}}},"required":["command","path"]})"},
    {"memory_", "Reads and edits the files of a memory that lasts over conversations, under /memories.",
     R"({"type":"object","properties":{
         "command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},
         "path":{"type":"string"},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},
         "insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},
         "new_path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}}},"required":["command"]})"},
};
constexpr std::string_view kComputer = "computer_";  // the client's too, but what it answers are images

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
    return BadRequest(path, absl::StrCat("'", path, "' is of the type '", type,
                                         "', whose results are images: the model here reads text only"));
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

// A user's blocks: text in between tool results, which are messages of their own.
class UserBlocks {
 public:
  explicit UserBlocks(ConversationBuilder& builder) : builder_(builder) {}

  // Whether there is text of a message that is not added yet.
  bool pending() const { return any_text_; }
  // What is read from here on is `role`'s.
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
    fields.Read("signature", signature);  // any: only those of our own say something
    INGOT_RETURN_IF_ERROR(fields.status());
    builder.AddReasoning(text, signature);
    return absl::OkStatus();
  }
  if (type == "redacted_thinking") return fields.status();  // of another server: nothing in it can be read
  if (type == "server_tool_use" || type == "mcp_tool_use" || std::string_view(type).ends_with("_tool_result")) {
    return fields.status();  // of the vendor's own tools: the model never saw them
  }
  if (type == "tool_use") {
    text::ToolCall call;
    fields.Read("id", call.id);
    fields.Read("name", call.name);
    if (call.name.empty()) fields.Wrong("name", "a string that is not empty");
    INGOT_RETURN_IF_ERROR(fields.status());
    const value* input = fields.Get("input");
    call.arguments_json = input == nullptr ? "{}" : text::PythonJson(*input);
    builder.AddCall(std::move(call));
    return absl::OkStatus();
  }
  INGOT_RETURN_IF_ERROR(fields.status());
  if (type == "compaction") {  // what stands for the turns before it
    INGOT_ASSIGN_OR_RETURN(text, ContentText(fields.Get("content"), path + ".content", kBetweenBlocks));
  } else {
    INGOT_ASSIGN_OR_RETURN(text, PartText(block, path));
  }
  builder.AddContent(text, "");
  return absl::OkStatus();
}

// The messages of a request. Neighbours of one role are one turn.
class Turns {
 public:
  explicit Turns(GatewayRequest& request) : request_(request), builder_(request), user_(builder_) {}

  // Those behind the elements that were read. REQUIRES: the first of them is none that GoesOn, and this reads once.
  absl::Status ReadAll(const array& messages) {
    for (const value& message : messages) {
      GatewayRequest::ListElement element{.first = Count()};
      INGOT_RETURN_IF_ERROR(Read(message, absl::StrCat("messages[", request_.elements.size(), "]"), element));
      element.count = Count();
      element.open = role_ == kAssistant || user_.pending() ? role_.front() : '\0';
      request_.elements.push_back(element);
    }
    user_.Flush();
    return absl::OkStatus();
  }
  // Whether it is part of the message with which an element ended that was left `open`.
  static bool GoesOn(const value& json, char open) {
    const value* role = base::Find(json, "role");
    return open != '\0' && role != nullptr && role->is_string() && RoleOf(role->get_string()).starts_with(open);
  }

 private:
  static constexpr std::string_view kAssistant = "assistant";

  static std::string RoleOf(std::string_view name) { return std::string(name == "developer" ? "system" : name); }
  // Messages so far, with that of which only the text is there.
  uint32_t Count() const { return static_cast<uint32_t>(builder_.size() + (user_.pending() ? 1 : 0)); }

  absl::Status Read(const value& json, const std::string& path, GatewayRequest::ListElement& element) {
    Fields fields(json, path);
    std::string role;
    fields.Read("role", role);
    INGOT_RETURN_IF_ERROR(fields.status());
    role = RoleOf(role);
    if (role != "user" && role != "assistant" && role != "system") {
      return BadRequest(path + ".role", absl::StrCat("'", path, ".role' must be \"user\" or \"assistant\""));
    }
    const value* content = fields.Get("content");
    value blocks = array{};
    const bool listed = content != nullptr && content->is_array();
    if (listed && (!content->get_array().empty() || role != "user")) {  // a user's turn is one, with nothing in it too
      blocks = *content;
    } else {
      INGOT_ASSIGN_OR_RETURN(const std::string text, ContentText(content, path + ".content", ""));
      if (!text.empty() || role != "assistant")
        blocks.as_array().emplace_back(object{{"type", "text"}, {"text", text}});
    }
    if (role == role_ && (role == kAssistant || user_.pending())) --element.first;
    Begin(role);
    for (size_t i = 0; i < blocks.get_array().size(); ++i) {
      const std::string where = absl::StrCat(path, ".content[", i, "]");
      const value& block = blocks.get_array()[i];
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

  GatewayRequest& request_;
  ConversationBuilder builder_;
  UserBlocks user_;
  std::string role_;  // of the last message
};

// Clients that did not ask for thinking take the first block for the text, so it is told to those that did only.
void ReadThinking(Fields& body, GatewayRequest& request) {
  bool adaptive = false;  // the template decides
  if (const object* thinking = body.Object("thinking")) {
    const value* type = thinking->if_contains("type");
    const bool named = type != nullptr && type->is_string();
    if (named && type->get_string() == "enabled") SetThinking(true, request);
    if (named && type->get_string() == "disabled") SetThinking(false, request);
    adaptive = named && type->get_string() == "adaptive";
  }
  request.tells_reasoning = adaptive || request.thinking.value_or(false);
  ReadFormat(body, "output_format", true, request);
  if (body.Object("output_config") == nullptr) return;
  Fields config(*body.Get("output_config"), "output_config");
  std::string effort;
  config.Read("effort", effort);
  if (!effort.empty()) request.conversation.template_variables["reasoning_effort"] = effort;
  ReadFormat(config, "format", true, request);
  body.Fail(config.status());
}

class Messages : public ListDialect {
 public:
  Messages() : ListDialect(kMessages, kMaxMessages) {}
  std::string_view name() const override { return "messages"; }
  std::string_view path() const override { return "/messages"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewMessagesRenderer(std::move(head), std::move(request));
  }
  Error ErrorOf(const absl::Status& status) const override { return AnthropicError(status); }

 protected:
  absl::Status Finish(GatewayRequest& request) const override {
    INGOT_RETURN_IF_ERROR(CheckMessages(request));
    const auto& read = request.conversation.messages;
    if (read.empty() || read.back().role != "assistant" || !request.raw_prompts.empty()) return absl::OkStatus();
    return BadRequest(kMessages,
                      "'messages' ends with an assistant's turn: an answer that the client began is not "
                      "supported, the last message must be the user's");
  }
  static absl::Status CheckMessages(GatewayRequest& request) {
    if (request.elements.empty() && request.raw_prompts.empty()) {
      return BadRequest(kMessages, "'messages' must have at least one message");
    }
    return CheckRequest(request);
  }

 private:
  absl::Status ReadFields(const Headers& headers, Fields& body, GatewayRequest& request) const override {
    ReadCommon(headers, body, request);
    ReadThinking(body, request);
    const array* tools = body.List("tools", 4096);
    INGOT_RETURN_IF_ERROR(body.status());
    for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
      INGOT_RETURN_IF_ERROR(ReadTool((*tools)[i], absl::StrCat("tools[", i, "]"), request));
    }
    INGOT_RETURN_IF_ERROR(ReadToolChoice(body, request));
    ConversationBuilder builder(request);
    return ReadSystem(body, builder);
  }

  absl::Status ReadElements(const array& elements, GatewayRequest& request) const override {
    const char open = request.elements.empty() ? '\0' : request.elements.back().open;
    if (!elements.empty() && Turns::GoesOn(elements.front(), open)) {
      return absl::UnavailableError("it goes on with the message before it");
    }
    return Turns(request).ReadAll(elements);
  }
};

class CountTokens final : public Messages {
 public:
  std::string_view name() const override { return "messages.count_tokens"; }
  std::string_view path() const override { return "/messages/count_tokens"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewCountRenderer(std::move(head), std::move(request));
  }
  std::string_view growing_list() const override { return ""; }  // one that is counted is not gone on from

 private:
  absl::Status Finish(GatewayRequest& request) const override {
    request.count_only = true;
    request.stream = false;
    return CheckMessages(request);
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
