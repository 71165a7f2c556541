// Rules of every dialect, for any request and any output of the model.
#include <gtest/gtest.h>

#include <random>

#include "gateway/dialect_fuzzer.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// ---- Streamed equals whole ----

std::string RandomOutput(std::mt19937& random) {
  static const char* const kPieces[] = {
      "a",
      "\n",
      " ",
      "<tool_call>",
      "</tool_call>",
      "ü",
      "\xF0\x9F\x99\x82",
      "\xFF",
      "{\"x\": 1.0}",
      "\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"\\u00fc\"}}\n</tool_call>",
      "\n<tool_call>\n{\"name\": \"text\", \"arguments\": {\"input\": \"one\\ntwo\"}}\n</tool_call>"};
  std::string text = random() % 3 == 0 ? "<think>\nhm ü\n</think>\n\n" : "";
  for (int i = random() % 8; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

// {"content", "reasoning", "calls":[[name, arguments]], "why"} of an answer, from whichever form it came in.
class Collected {
 public:
  void Content(const value& text) { content_ += text.as_string(); }
  void Reasoning(const value& text) { reasoning_ += text.as_string(); }
  void Call(const value& id, const value& name) {
    EXPECT_TRUE(ids_.insert(std::string(id.as_string())).second);
    calls_.emplace_back(std::string(name.as_string()), "");
  }
  void Arguments(const value& text) { calls_.back().second += text.as_string(); }
  void Why(const value& reason) { why_ = base::PrintJson(reason); }
  std::string Text() const {
    std::string text = "content: " + content_ + "\nreasoning: " + reasoning_ + "\nwhy: " + why_;
    for (const auto& [name, arguments] : calls_) text += "\n" + name + ": " + arguments;
    return text;
  }
  const std::set<std::string>& ids() const { return ids_; }

 private:
  std::string content_, reasoning_, why_;
  std::vector<std::pair<std::string, std::string>> calls_;
  std::set<std::string> ids_;
};

void CollectChatCall(const value& call, Collected& out) {
  const bool custom = call.as_object().contains("custom");
  const value& body = call.at(custom ? "custom" : "function");
  if (call.as_object().contains("id")) out.Call(call.at("id"), body.at("name"));
  if (const value* text = base::Find(body, custom ? "input" : "arguments")) out.Arguments(*text);
}

Collected FromChat(const World::Outcome& outcome) {
  Collected out;
  for (const value& event : outcome.events) {
    const value& choice = event.at("choices").at(0);
    const value* delta = base::Find(choice, "delta");
    const value& message = delta == nullptr ? choice.at("message") : *delta;
    if (const value* text = base::Find(message, "content"); text != nullptr && !text->is_null()) out.Content(*text);
    if (const value* text = base::Find(message, "reasoning_content")) out.Reasoning(*text);
    if (const value* calls = base::Find(message, "tool_calls")) {
      for (const value& call : calls->as_array()) CollectChatCall(call, out);
    }
    if (!choice.at("finish_reason").is_null()) out.Why(choice.at("finish_reason"));
  }
  return out;
}

void CollectBlock(const value& block, Collected& out) {
  const auto& type = block.at("type").as_string();
  if (type == "text") out.Content(block.at("text"));
  if (type == "thinking") out.Reasoning(block.at("thinking"));
  if (type == "tool_use") {
    out.Call(block.at("id"), block.at("name"));
    if (!block.at("input").as_object().empty()) out.Arguments(value(base::CanonicalJson(block.at("input"))));
  }
}

Collected FromMessages(const World::Outcome& outcome) {
  Collected out;
  std::string arguments;
  for (const value& event : outcome.events) {
    const auto& type = event.at("type").as_string();
    if (type == "message") {
      for (const value& block : event.at("content").as_array()) CollectBlock(block, out);
      out.Why(event.at("stop_reason"));
    } else if (type == "content_block_start") {
      CollectBlock(event.at("content_block"), out);
    } else if (type == "content_block_delta") {
      const value& delta = event.at("delta");
      if (delta.at("type") == "text_delta") out.Content(delta.at("text"));
      if (delta.at("type") == "thinking_delta") out.Reasoning(delta.at("thinking"));
      if (delta.at("type") == "input_json_delta") arguments += delta.at("partial_json").as_string();
    } else if (type == "content_block_stop" && !arguments.empty()) {
      out.Arguments(value(base::CanonicalJson(base::ParseJson(std::exchange(arguments, {})).value())));
    } else if (type == "message_delta") {
      out.Why(event.at("delta").at("stop_reason"));
    }
  }
  return out;
}

Collected FromResponses(const World::Outcome& outcome) {
  Collected out;
  if (outcome.names.back().empty()) {
    for (const value& item : outcome.events[0].at("output").as_array()) {
      if (item.at("type") == "message") out.Content(item.at("content").at(0).at("text"));
      if (item.at("type") == "reasoning") out.Reasoning(item.at("content").at(0).at("text"));
      if (!item.as_object().contains("call_id")) continue;
      out.Call(item.at("call_id"), item.at("name"));
      out.Arguments(item.at(item.at("type") == "custom_tool_call" ? "input" : "arguments"));
    }
    out.Why(outcome.events[0].at("status"));
    return out;
  }
  for (size_t i = 0; i < outcome.events.size(); ++i) {
    const value& event = outcome.events[i];
    const std::string& name = outcome.names[i];
    if (name == "response.output_text.delta") out.Content(event.at("delta"));
    if (name == "response.reasoning_text.delta") out.Reasoning(event.at("delta"));
    if (name == "response.output_item.added" && event.at("item").as_object().contains("call_id")) {
      out.Call(event.at("item").at("call_id"), event.at("item").at("name"));
    }
    if (name.starts_with("response.") && name.ends_with(".delta") && name.find("call") != std::string::npos) {
      out.Arguments(event.at("delta"));
    }
    if (event.as_object().contains("response")) out.Why(event.at("response").at("status"));
  }
  return out;
}

Collected FromCompletions(const World::Outcome& outcome) {
  Collected out;
  for (const value& event : outcome.events) {
    const value& choice = event.at("choices").at(0);
    out.Content(choice.at("text"));
    if (!choice.at("finish_reason").is_null()) out.Why(choice.at("finish_reason"));
  }
  return out;
}

Collected FromGoogle(const World::Outcome& outcome) {
  Collected out;
  for (const value& event : outcome.events) {
    const value& candidate = event.at("candidates").at(0);
    for (const value& part : candidate.at("content").at("parts").as_array()) {
      if (const value* call = base::Find(part, "functionCall")) {
        out.Call(call->at("id"), call->at("name"));
        out.Arguments(value(base::CanonicalJson(call->at("args"))));
      } else if (part.as_object().contains("thought")) {
        out.Reasoning(part.at("text"));
      } else {
        EXPECT_TRUE(part.at("text") != "" || outcome.events.size() == 1 || &event == &outcome.events.back());
        out.Content(part.at("text"));
      }
    }
    if (const value* reason = base::Find(candidate, "finishReason")) out.Why(*reason);
  }
  return out;
}

struct DialectCase {
  const char* name;
  const char* body;
  Collected (*collect)(const World::Outcome&);
  const char* stream_name = nullptr;  // of the dialect that streams; null = a field of the body asks for it
};
const DialectCase kCases[] = {
    {"chat.completions", R"({"messages":[{"role":"user","content":"x"}],"tools":[
        {"type":"function","function":{"name":"add","parameters":{}}},{"type":"custom","custom":{"name":"text"}}]})",
     FromChat},
    {"messages", R"({"max_tokens":99,"messages":[{"role":"user","content":"x"}],"tools":[
        {"name":"add","input_schema":{}},{"name":"text","input_schema":{}}]})",
     FromMessages},
    {"responses", R"({"input":"x","tools":[{"type":"function","name":"add"},{"type":"custom","name":"text"}]})",
     FromResponses},
    {"completions", R"({"prompt":"x"})", FromCompletions},
    {"google.generateContent",
     R"({"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"thinkingConfig":{"includeThoughts":true}},
        "tools":[{"functionDeclarations":[{"name":"add"},{"name":"text"}]}]})",
     FromGoogle, "google.streamGenerateContent"}};

TEST(Dialects, StreamTheSameAnswerAsTheWholeReply) {
  std::mt19937 random(5);
  std::string text;
  World world([&](const auto&) {
    Script script;
    script.text = text;
    return script;
  });
  world.with_admission = world.with_pool = false;
  std::set<std::string> ids;
  size_t calls = 0, reasoned = 0;
  for (int i = 0; i < 150; ++i) {
    text = RandomOutput(random);
    for (const DialectCase& dialect : kCases) {
      object body = base::ParseJson(dialect.body)->as_object();
      const auto whole = world.Ask(dialect.name, "key", base::PrintJson(body));
      body["stream"] = true;
      const char* const streams = dialect.stream_name == nullptr ? dialect.name : dialect.stream_name;
      const auto stream = world.Ask(streams, "key", base::PrintJson(body));
      ASSERT_TRUE(whole.status.ok() && stream.status.ok()) << whole.status << stream.status;
      const Collected one = dialect.collect(whole), two = dialect.collect(stream);
      ASSERT_EQ(one.Text(), two.Text()) << dialect.name << "\n" << text;
      for (const Collected* collected : {&one, &two}) {
        calls += collected->ids().size();
        for (const std::string& id : collected->ids()) EXPECT_TRUE(ids.insert(id).second) << id;
      }
      reasoned += one.Text().find("reasoning: hm") != std::string::npos;
    }
  }
  EXPECT_GT(calls, 100u);
  EXPECT_GT(reasoned, 50u);
}

// ---- Bad bodies ----

TEST(Dialects, AnswerEveryBodyOrNameItsFault) {
  for (const auto& [name, full] : kFullBodies) {
    const Dialect& dialect = *FindDialect(name);
    ASSERT_TRUE(dialect.Parse({.body = full, .headers = {}}).ok())
        << name << dialect.Parse({.body = full, .headers = {}}).status();
    DialectFuzzer fuzzer(name);
    ASSERT_EQ(fuzzer.Try(full), "") << name;
    std::mt19937 random(7);
    for (int i = 0; i < 800; ++i) {
      const std::string body = MutateBody(full, random);
      ASSERT_EQ(fuzzer.Try(body), "") << name << "\n" << body;
    }
    EXPECT_GT(fuzzer.answered(), 50) << name;
    EXPECT_GT(fuzzer.rejected(), 150) << name;
  }
}

// Requests of each dialect that fail: a prompt that is too long, and none at all.
TEST(Dialects, NameTheirOwnFieldsInErrors) {
  World world([](const auto&) {
    Script script;
    script.text = "ok";
    return script;
  });
  world.with_admission = world.with_pool = false;
  world.engine->context_length = 60;
  const std::string text(100, 'x');
  const value message = object{{"role", "user"}, {"content", text}};
  for (const bool stream : {false, true}) {
    const auto field_of = [&](const char* dialect, const char* field, value sent, const char* code) {
      object body{{"max_tokens", 8}, {"stream", stream}};
      body[field] = std::move(sent);
      const auto outcome = world.Ask(dialect, "key", base::PrintJson(body));
      EXPECT_EQ(HttpStatusOf(outcome.status), 400) << dialect;
      EXPECT_EQ(ErrorCodeOf(outcome.status), code) << dialect;
      return FieldAtFault(outcome.status);
    };
    const char* const too_long = kContextLengthExceeded;
    EXPECT_EQ(field_of("chat.completions", "messages", array{message}, too_long), "messages");
    EXPECT_EQ(field_of("messages", "messages", array{message}, too_long), "messages");
    EXPECT_EQ(field_of("responses", "input", text.c_str(), too_long), "input");
    EXPECT_EQ(field_of("responses", "input", array{message}, too_long), "input");
    EXPECT_EQ(field_of("completions", "prompt", text.c_str(), too_long), "prompt");
    EXPECT_EQ(field_of("completions", "prompt", array(100, 65), too_long), "prompt");
    const value content = object{{"role", "user"}, {"parts", array{object{{"text", text}}}}};
    for (const char* dialect : {"google.generateContent", "google.streamGenerateContent"}) {
      EXPECT_EQ(field_of(dialect, "contents", array{content}, too_long), "contents");
    }
    for (const char* dialect : {"chat.completions", "completions", "responses", "messages", "google.generateContent",
                                "google.streamGenerateContent"}) {
      EXPECT_EQ(field_of(dialect, "prompt_token_ids", array(100, 65), too_long), "prompt_token_ids");
      EXPECT_EQ(field_of(dialect, "prompt_token_ids", array{1 << 30}, ""), "prompt_token_ids");
    }
    EXPECT_EQ(field_of("completions", "prompt", array{1 << 30}, ""), "prompt");
    for (const Dialect* dialect : Dialects()) {
      const std::string name(dialect->name());
      EXPECT_EQ(field_of(name.c_str(), "model", "m", ""), PromptField(name)) << name;
    }
  }
}

TEST(Dialects, IgnoreFieldsTheyDoNotKnow) {
  for (const auto& [name, full] : kFullBodies) {
    object body = base::ParseJson(full)->as_object();
    for (const char* field :
         {"a_new_field", "service_tier", "context_management", "mcp_servers", "betas", "verbosity"}) {
      body[field] = array{object{{"x", nullptr}}};
    }
    EXPECT_TRUE(FindDialect(name)->Parse({.body = base::PrintJson(body), .headers = {}}).ok()) << name;
  }
}

TEST(Dialects, NameAnImagePart) {
  const std::pair<const char*, const char*> cases[] = {
      {"chat.completions",
       R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}]})"},
      {"messages", R"({"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})"},
      {"responses", R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})"},
      {"google.generateContent",
       R"({"contents":[{"parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]}]})"},
      {"google.countTokens", R"({"contents":[{"parts":[{"text":"a"},{"file_data":{"mime_type":"image/png"}}]}]})"},
      {"google.streamGenerateContent", R"({"contents":[{"parts":[{"text":"a"},{"functionResponse":{"name":"f",
        "response":{},"parts":[{"inlineData":{"mimeType":"image/png"}}]}}]}]})"}};
  for (const auto& [name, body] : cases) {
    const absl::Status status = FindDialect(name)->Parse({.body = body, .headers = {}}).status();
    EXPECT_EQ(HttpStatusOf(status), 400);
    EXPECT_EQ(ErrorCodeOf(status), "unsupported_content") << status;
    EXPECT_NE(status.message().find("image"), absl::string_view::npos) << status;
    const bool second = std::string_view(body).find("\"text\"") != std::string_view::npos;
    EXPECT_NE(status.message().find(second ? "[1]" : "[0]'"), absl::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace ingot::gateway
