#include "text/chat/template_messages.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/big_integer.h"
#include "base/checksum.h"

namespace ingot::text {
namespace {

using jinja::Value;

// Returns external text marked with its source.
Value Given(std::string_view text, int32_t source) {
  std::vector<jinja::Mark> marks;
  if (!text.empty()) marks.push_back({0, text.size(), source});
  return Value(std::make_shared<const jinja::Str>(std::string(text), std::move(marks)));
}

// The program's own strings, shared by all conversations.
struct Words {
  Value role = Value::Text("role"), content = Value::Text("content"), name = Value::Text("name");
  Value reasoning_content = Value::Text("reasoning_content"), thinking = Value::Text("thinking");
  Value tool_calls = Value::Text("tool_calls"), tool_call_id = Value::Text("tool_call_id"), id = Value::Text("id");
  Value type = Value::Text("type"), function = Value::Text("function"), arguments = Value::Text("arguments");
  std::vector<Value> roles = {Value::Text("system"), Value::Text("user"), Value::Text("assistant"),
                              Value::Text("tool")};

  Value Role(const std::string& name_of) const {
    for (const Value& role_of : roles) {
      if (role_of.str()->bytes == name_of) return role_of;
    }
    return Value::Text(name_of);
  }
};
const Words& Word() {
  static const auto* const words = new Words;
  return *words;
}

constexpr size_t kShortId = 9;
constexpr std::string_view kLettersAndDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

// Equal ids stay equal. Different ids stay different, except with a probability of 10^-16.
std::string ShownId(const std::string& id, const TemplateDialect& dialect) {
  const bool fits = id.size() == kShortId && id.find_first_not_of(kLettersAndDigits) == std::string::npos;
  if (!dialect.short_ids || id.empty() || fits) return id;
  const std::string key = base::ContentKey(id);
  std::string shown;
  for (size_t i = 0; i < kShortId; ++i) {
    shown += kLettersAndDigits[static_cast<unsigned char>(key[i]) % kLettersAndDigits.size()];
  }
  return shown;
}

// Maps a tool call's id for clients to the id to show: the model's own id if it wrote one.
using ShownIds = std::unordered_map<std::string_view, const std::string*>;

Value CallValue(const ToolCall& call, int32_t source, const TemplateDialect& dialect) {
  jinja::DictBuilder function(2);
  function.Set(Word().name, Given(call.name, source));
  const std::string_view text = call.arguments_json.empty() ? std::string_view("{}") : call.arguments_json;
  const auto arguments = dialect.arguments_as_text ? absl::StatusOr<base::json::value>(absl::UnknownError(""))
                                                   : base::ParseJsonExactly(text);
  const bool object = arguments.ok() && arguments->is_object();
  function.Set(Word().arguments, object ? jinja::FromJson(*arguments, source) : Given(text, source));
  jinja::DictBuilder dict(3);
  const std::string& id = call.written_id.empty() ? call.id : call.written_id;
  if (!id.empty()) dict.Set(Word().id, Given(ShownId(id, dialect), source));
  dict.Set(Word().type, Word().function);
  dict.Set(Word().function, function.Release());
  return dict.Release();
}

// `answered` is the shown id of the call that a tool message responds to.
Value MessageToValue(const Message& message, int32_t source, const TemplateDialect& dialect,
                     const std::string& answered) {
  jinja::DictBuilder dict(7 + message.extra.size());  // all fields
  dict.Set(Word().role, Word().Role(message.role));
  if (!message.content.empty() || message.tool_calls.empty() ||
      dialect.no_content == TemplateDialect::NoContent::kEmpty) {
    dict.Set(Word().content, Given(message.content, source));
  } else if (dialect.no_content == TemplateDialect::NoContent::kNull) {
    dict.Set(Word().content, Value());
  }
  if (!message.reasoning.empty()) {
    const Value reasoning = Given(message.reasoning, source);
    dict.Set(Word().reasoning_content, reasoning);
    dict.Set(Word().thinking, reasoning);  // gpt-oss reads this key
  }
  if (!message.tool_calls.empty()) {
    std::vector<Value> calls;
    for (const ToolCall& call : message.tool_calls) calls.push_back(CallValue(call, source, dialect));
    dict.Set(Word().tool_calls, jinja::MakeList(std::move(calls)));
  }
  if (!message.tool_call_id.empty()) {
    dict.Set(Word().tool_call_id, Given(ShownId(answered, dialect), source));
  }
  if (!message.name.empty()) dict.Set(Word().name, Given(message.name, source));
  for (const auto& field : message.extra) {
    dict.Set(Given(std::string_view(field.key().data(), field.key().size()), source),
             jinja::FromJson(field.value(), source));
  }
  return dict.Release();
}

// Returns `others` and the variable `messages`.
ChatTemplate::Variables WithMessages(const ChatTemplate::Variables& others, const std::vector<Value>& messages) {
  ChatTemplate::Variables variables = others;
  variables.emplace_back("messages", jinja::MakeList(messages));
  return variables;
}

bool Has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

size_t Count(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// Returns true if the call is rendered correctly: its parts are present, not as Python prints a dict and not as JSON
// within a JSON string, and no additional None appears.
bool ShowsCall(const std::string& text, size_t nones) {
  return Has(text, "probe_call") && Has(text, "probe_key") && Has(text, "probe_value") && !Has(text, "'probe_key'") &&
         !Has(text, "\\\"probe_key") && Count(text, "None") <= nones;
}

}  // namespace

TemplateInput MakeTemplateInput(const Conversation& conversation, const TemplateDialect& dialect) {
  TemplateInput input;
  input.messages.reserve(conversation.messages.size());
  ShownIds ids;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    const auto answered = ids.find(message.tool_call_id);
    input.messages.push_back(MessageToValue(message, static_cast<int32_t>(i), dialect,
                                            answered == ids.end() ? message.tool_call_id : *answered->second));
    for (const ToolCall& call : message.tool_calls) {
      if (!call.id.empty()) ids[call.id] = call.written_id.empty() ? &call.id : &call.written_id;
    }
  }
  for (const auto& field : conversation.template_variables) {
    input.others.emplace_back(std::string(field.key()), jinja::FromJson(field.value(), kOutsideSource));
  }
  if (conversation.tools.empty()) return input;
  std::vector<Value> tools;
  for (const base::json::value& tool : conversation.tools) tools.push_back(jinja::FromJson(tool, kOutsideSource));
  input.others.emplace_back("tools", jinja::MakeList(std::move(tools)));
  return input;
}

absl::StatusOr<jinja::RenderedText> RenderInput(const ChatTemplate& chat_template, const TemplateInput& input,
                                                size_t count, bool add_generation_prompt, std::timespec now) {
  const std::vector<Value> messages(input.messages.begin(),
                                    input.messages.begin() + static_cast<std::ptrdiff_t>(count));
  ChatTemplate::Variables variables = WithMessages(input.others, messages);
  variables.emplace_back("add_generation_prompt", Value(add_generation_prompt));
  return chat_template.Render(variables, messages, now);
}

absl::StatusOr<jinja::PromptRendering> RenderInputAtPrompt(const ChatTemplate& chat_template,
                                                           const TemplateInput& input, size_t count,
                                                           bool add_generation_prompt) {
  const std::vector<Value> messages(input.messages.begin(),
                                    input.messages.begin() + static_cast<std::ptrdiff_t>(count));
  return chat_template.RenderAtPrompt(WithMessages(input.others, messages), messages, add_generation_prompt);
}

Conversation ProbeConversation() {
  Conversation conversation;
  Message question, answer;
  question.role = "user";
  question.content = "probe";
  answer.role = "assistant";
  // The id contains the name, because some templates print only the id (Kimi K2).
  answer.tool_calls.push_back({"functions.probe_call:0", "probe_call", R"({"probe_key": "probe_value"})"});
  conversation.messages = {question, answer};
  conversation.tools.push_back(base::json::object{
      {"type", "function"},
      {"function", base::json::object{
                       {"name", "another_tool"},
                       {"description", "another"},
                       {"parameters", base::json::object{{"type", "object"}, {"properties", base::json::object{}}}}}}});
  return conversation;
}

TemplateDialect ProbeDialect(const ChatTemplate& chat_template) {
  using NoContent = TemplateDialect::NoContent;
  const Conversation probe = ProbeConversation();
  const auto question = RenderInput(chat_template, MakeTemplateInput(probe, {}), 1, false);
  const size_t nones = question.ok() ? Count(question->text, "None") : 0;
  for (const bool short_ids : {false, true}) {
    for (const bool as_text : {false, true}) {
      for (const NoContent no_content : {NoContent::kEmpty, NoContent::kNull, NoContent::kAbsent}) {
        const TemplateDialect dialect{no_content, as_text, short_ids};
        const auto rendered = RenderInput(chat_template, MakeTemplateInput(probe, dialect), 2, false);
        if (rendered.ok() && ShowsCall(rendered->text, nones)) return dialect;
      }
    }
  }
  return {};
}

}  // namespace ingot::text
