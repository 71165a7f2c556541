#include "text/template_messages.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/checksum.h"
#include "text/jinja/iteration_cache.h"
#include "text/jinja/iteration_memo.h"
#include "text/jinja/iteration_run.h"

namespace ingot::text {
namespace {

using jinja::Value;

// Text from outside, with the number of its owner.
Value Given(std::string_view text, int32_t source) {
  std::vector<jinja::Mark> marks;
  if (!text.empty()) marks.push_back({0, text.size(), source});
  return Value(std::make_shared<const jinja::Str>(std::string(text), std::move(marks)));
}

// The program's own words: one string each, shared by all conversations.
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

// Equal ids are shown as equal ones, and others, but for one chance in 10^16, as others.
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

// What the model called its calls, by the ids that clients know them by.
using WrittenIds = std::unordered_map<std::string_view, const std::string*>;

Value CallValue(const ToolCall& call, int32_t source, const TemplateDialect& dialect) {
  jinja::DictBuilder function;
  function.Set(Word().name, Given(call.name, source));
  const std::string text = call.arguments_json.empty() ? "{}" : call.arguments_json;
  const auto arguments =
      dialect.arguments_as_text ? absl::StatusOr<base::json::value>(absl::UnknownError("")) : base::ParseJson(text);
  const bool object = arguments.ok() && arguments->is_object();
  function.Set(Word().arguments, object ? jinja::FromJson(*arguments, source) : Given(text, source));
  jinja::DictBuilder dict;
  const std::string& id = call.written_id.empty() ? call.id : call.written_id;
  if (!id.empty()) dict.Set(Word().id, Given(ShownId(id, dialect), source));
  dict.Set(Word().type, Word().function);
  dict.Set(Word().function, function.Take());
  return dict.Take();
}

// `answered`: the id to show of the call that it answers.
Value MessageToValue(const Message& message, int32_t source, const TemplateDialect& dialect,
                     const std::string& answered) {
  jinja::DictBuilder dict;
  dict.Set(Word().role, Word().Role(message.role));
  if (!message.content.empty() || message.tool_calls.empty() ||
      dialect.no_content == TemplateDialect::NoContent::kEmpty) {
    dict.Set(Word().content, Given(message.content, source));
  } else if (dialect.no_content == TemplateDialect::NoContent::kNull) {
    dict.Set(Word().content, Value());
  }
  if (!message.reasoning.empty()) {
    dict.Set(Word().reasoning_content, Given(message.reasoning, source));
    dict.Set(Word().thinking, Given(message.reasoning, source));  // gpt-oss reads this one
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
  return dict.Take();
}

// `messages`: those of the input, or first ones of them.
Value ListOf(const jinja::TrackedList& messages, const TemplateInput& input) {
  std::vector<Value> dicts;
  dicts.reserve(messages.items.size());
  for (const jinja::Tracked& message : messages.items) dicts.push_back(message.dict);
  if (dicts.size() < input.messages.items.size()) return jinja::MakeList(std::move(dicts));
  return jinja::MakeSeq(jinja::Seq::Kind::kList, std::move(dicts), input.depth);
}

// The first `count` messages.
jinja::TrackedList Beginning(const jinja::TrackedList& messages, size_t count) {
  if (count == messages.items.size()) return messages;
  jinja::TrackedList first;
  first.items.assign(messages.items.begin(), messages.items.begin() + static_cast<std::ptrdiff_t>(count));
  if (messages.together > count) return first;
  first.together = messages.together;
  first.runs = messages.runs;
  return first;
}

bool Has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

size_t Count(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// Whether the call shows as it should: its parts are there, not as Python prints a dict, nor as JSON in a JSON string,
// and nothing of the message shows as None.
bool ShowsCall(const std::string& text, size_t nones) {
  return Has(text, "probe_call") && Has(text, "probe_key") && Has(text, "probe_value") && !Has(text, "'probe_key'") &&
         !Has(text, "\\\"probe_key") && Count(text, "None") <= nones;
}

// A message's value, and what it was made with besides the message.
struct MadeMessage {
  int32_t source = 0;
  TemplateDialect dialect;
  std::string answered;  // the id it shows of the call that it answers
  Value value;
  std::shared_ptr<jinja::IterationCache> kept = std::make_shared<jinja::IterationCache>();
};

// The messages that are settled in a list, made together.
struct MadeBeginning {
  TemplateDialect dialect;
  TemplateInput input;  // without others
  WrittenIds ids;       // within the messages
  jinja::RunCache runs;
};

// About what a template prints of a message.
size_t PrintedBytes(const Message& message) {
  constexpr size_t kAround = 64;  // bytes that templates write around a text
  size_t bytes = kAround + message.content.size() + message.reasoning.size();
  for (const ToolCall& call : message.tool_calls) bytes += kAround + call.name.size() + call.arguments_json.size();
  return bytes;
}

// Adds messages [first, count). `before`: ids of those before them, null: there are none; `ids`: of their own.
void MakeMessages(const MessageList& messages, size_t first, size_t count, const TemplateDialect& dialect,
                  const WrittenIds* before, WrittenIds& ids, TemplateInput& input) {
  static constexpr char kMessage = 0;
  const auto shown = [&](const std::string& id) {
    if (const auto own = ids.find(id); own != ids.end()) return *own->second;
    if (before == nullptr) return id;
    const auto known = before->find(id);
    return known == before->end() ? id : *known->second;
  };
  input.messages.items.reserve(count);
  for (size_t i = first; i < count; ++i) {
    const Message& message = messages[i];
    const std::string answered = shown(message.tool_call_id);
    const auto source = static_cast<int32_t>(i);
    const auto make = [&](const Message& of) {
      return MadeMessage{source, dialect, answered, MessageToValue(of, source, dialect, answered)};
    };
    auto made = messages.Derived<MadeMessage>(i, &kMessage, make);
    if (made->source != source || made->dialect != dialect || made->answered != answered) {
      made = std::make_shared<const MadeMessage>(make(message));
      messages.SetDerived(i, &kMessage, made);
    }
    input.messages.items.push_back({jinja::Borrowed(made->value), made->kept.get()});
    input.depth = std::max(input.depth, jinja::Depth(made->value));
    input.messages.text_bytes += PrintedBytes(message);
    input.owners.push_back(std::move(made));
    for (const ToolCall& call : message.tool_calls) {
      if (!call.id.empty()) ids[call.id] = call.written_id.empty() ? &call.id : &call.written_id;
    }
  }
}

std::shared_ptr<const MadeBeginning> MakeBeginning(const MessageList& messages, const TemplateDialect& dialect) {
  static constexpr char kBeginning = 0;
  auto known = messages.OfSettled<MadeBeginning>(&kBeginning);
  if (known != nullptr && known->dialect == dialect) return known;
  auto made = std::make_shared<MadeBeginning>();
  made->dialect = dialect;
  auto [earlier, first] = messages.TakeOfEarlier<MadeBeginning>(&kBeginning);
  if (earlier != nullptr && earlier->dialect == dialect) {
    made->ids = earlier->ids;
    made->input = earlier->input;
    made->runs.TakeOver(earlier->runs);
  } else {
    first = 0;
  }
  MakeMessages(messages, first, messages.settled(), dialect, nullptr, made->ids, made->input);
  made->input.messages.together = messages.settled();
  made->input.messages.runs = &made->runs;
  messages.KeepOfSettled<MadeBeginning>(&kBeginning, made);
  return made;
}

}  // namespace

TemplateInput MakeTemplateInput(const Conversation& conversation, const TemplateDialect& dialect) {
  static constexpr char kTools = 0;
  const MessageList& messages = conversation.messages;
  TemplateInput input;
  std::shared_ptr<const MadeBeginning> beginning;
  if (messages.settled() > 0) {
    beginning = MakeBeginning(messages, dialect);
    const jinja::TrackedList& known = beginning->input.messages;
    input.messages.items.reserve(messages.size());  // before they are copied
    input.messages.items = known.items;
    input.messages.together = known.together;
    input.messages.runs = known.runs;
    input.messages.text_bytes = known.text_bytes;
    input.depth = beginning->input.depth;
    input.owners.push_back(beginning);
  }
  WrittenIds ids;
  MakeMessages(messages, messages.settled(), messages.size(), dialect, beginning == nullptr ? nullptr : &beginning->ids,
               ids, input);
  for (const auto& field : conversation.template_variables) {
    input.others.emplace_back(std::string(field.key()), jinja::FromJson(field.value(), kOutsideSource));
  }
  if (!conversation.tools.empty()) {
    input.others.emplace_back("tools", *conversation.tools.Derived<Value>(&kTools, [](const ToolList::Tools& all) {
      std::vector<Value> tools;
      for (const base::json::value& tool : all) tools.push_back(jinja::FromJson(tool, kOutsideSource));
      return jinja::MakeList(std::move(tools));
    }));
  }
  return input;
}

absl::StatusOr<jinja::Rendered> RenderInput(const ChatTemplate& chat_template, const TemplateInput& input, size_t count,
                                            bool add_generation_prompt, std::timespec now) {
  ChatTemplate::Variables variables = input.others;
  jinja::TrackedList messages = Beginning(input.messages, count);
  variables.emplace_back("messages", ListOf(messages, input));
  variables.emplace_back("add_generation_prompt", Value(add_generation_prompt));
  return chat_template.Render(variables, std::move(messages), now);
}

absl::StatusOr<jinja::PromptRendering> RenderInputAtPrompt(const ChatTemplate& chat_template,
                                                           const TemplateInput& input, size_t count,
                                                           bool add_generation_prompt) {
  ChatTemplate::Variables variables = input.others;
  jinja::TrackedList messages = Beginning(input.messages, count);
  variables.emplace_back("messages", ListOf(messages, input));
  return chat_template.RenderAtPrompt(variables, std::move(messages), add_generation_prompt);
}

Conversation ProbeConversation() {
  Conversation conversation;
  Message question, answer;
  question.role = "user";
  question.content = "probe";
  answer.role = "assistant";
  // An id with the name in it: some templates print it alone (Kimi K2).
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
