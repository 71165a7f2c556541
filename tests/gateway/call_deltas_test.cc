// Tool calls as clients see them: told while they are sampled, the same as in an answer that comes whole, and as the
// model wrote them where it wrote them wrong.
#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "gateway/fakes.h"
#include "gateway/random_arguments.h"

namespace ingot::gateway::call_deltas_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr const char* kDialects[] = {"chat.completions", "responses", "messages"};

object Request(std::string_view dialect, bool stream) {
  object body;
  body["model"] = "m";
  body["stream"] = stream;
  if (dialect == "responses") {
    body["input"] = array{object{{"role", "user"}, {"content", "add"}}};
    body["tools"] = base::json::parse(R"([{"type":"function","name":"add","parameters":{"type":"object"}}])");
    return body;
  }
  body["messages"] = array{Msg("user", "add")};
  body["max_tokens"] = 1000;
  body["tools"] = dialect == "messages" ? base::json::parse(R"([{"name":"add","input_schema":{"type":"object"}}])")
                                        : value(CalculatorTools());
  return body;
}

std::string Text(const value& json) { return std::string(json.as_string()); }
void Append(value& to, const value& more) { to.as_string().append(more.as_string().begin(), more.as_string().end()); }

// ---- What clients make of a stream, in the form of an answer that comes whole ----

value CollectChat(const World::Outcome& outcome) {
  object message{{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
  array calls;
  for (const value& event : outcome.events) {
    const object& delta = event.at("choices").at(0).at("delta").as_object();
    for (const char* name : {"content", "reasoning_content"}) {
      if (!delta.contains(name)) continue;
      if (!message.contains(name)) message[name] = "";
      Append(message[name], delta.at(name));
    }
    if (!delta.contains("tool_calls")) continue;
    for (const value& piece : delta.at("tool_calls").as_array()) {
      const auto index = piece.at("index").to_number<size_t>();
      const value* id = base::Find(piece, "id");
      EXPECT_EQ(id != nullptr, index == calls.size()) << "an id on the first delta of a call, and only there";
      if (id != nullptr) {
        EXPECT_FALSE(Text(*id).empty());
        calls.push_back(object{{"id", *id}, {"type", piece.at("type")}, {"function", piece.at("function")}});
      } else {
        Append(calls.at(index).at("function").at("arguments"), piece.at("function").at("arguments"));
      }
    }
  }
  if (!calls.empty()) message["tool_calls"] = calls;
  if (!calls.empty() && Text(message["content"]).empty()) message["content"] = nullptr;
  return message;
}

// The items of the last event; what the events before said must add up to them.
value CollectResponses(const World::Outcome& outcome) {
  array items;
  for (size_t i = 0; i < outcome.events.size(); ++i) {
    const value& event = outcome.events[i];
    const std::string& name = outcome.names[i];
    if (name == "response.output_item.added") {
      EXPECT_EQ(event.at("output_index").to_number<size_t>(), items.size());
      items.push_back(event.at("item"));
    } else if (name == "response.function_call_arguments.delta") {
      Append(items.back().at("arguments"), event.at("delta"));
    } else if (name == "response.function_call_arguments.done") {
      EXPECT_EQ(items.back().at("arguments"), event.at("arguments"));
    } else if (name == "response.output_item.done") {
      if (event.at("item").at("type") == "function_call") {
        EXPECT_EQ(items.back().at("arguments"), event.at("item").at("arguments"));
      }
      items.back() = event.at("item");
    }
  }
  EXPECT_EQ(value(items), outcome.events.back().at("response").at("output"));
  return items;
}

value CollectMessages(const World::Outcome& outcome) {
  array blocks;
  std::string input;
  for (size_t i = 0; i < outcome.events.size(); ++i) {
    const value& event = outcome.events[i];
    if (outcome.names[i] == "content_block_start") {
      EXPECT_EQ(event.at("index").to_number<size_t>(), blocks.size());
      blocks.push_back(event.at("content_block"));
      input.clear();
    } else if (outcome.names[i] == "content_block_delta") {
      const value& delta = event.at("delta");
      const std::string type = Text(delta.at("type"));
      if (type == "text_delta") Append(blocks.back().at("text"), delta.at("text"));
      if (type == "thinking_delta") Append(blocks.back().at("thinking"), delta.at("thinking"));
      if (type == "signature_delta") blocks.back().at("signature") = delta.at("signature");
      if (type == "input_json_delta") input += Text(delta.at("partial_json"));
    } else if (outcome.names[i] == "content_block_stop" && blocks.back().at("type") == "tool_use") {
      const auto parsed = base::ParseJson(input);
      EXPECT_TRUE(parsed.ok() && parsed->is_object()) << input;
      if (parsed.ok()) blocks.back().at("input") = *parsed;
    }
  }
  return blocks;
}

value Collect(std::string_view dialect, const World::Outcome& outcome) {
  if (dialect == "responses") return CollectResponses(outcome);
  return dialect == "messages" ? CollectMessages(outcome) : CollectChat(outcome);
}
value WholeOf(std::string_view dialect, const World::Outcome& outcome) {
  if (dialect == "responses") return outcome.events.at(0).at("output");
  return dialect == "messages" ? outcome.events.at(0).at("content") : outcome.message();
}
std::string WithoutIds(const value& json) {
  return std::regex_replace(base::PrintJson(json), std::regex("[0-9a-f]{32}"), "ID");
}

std::string RandomOutput(std::mt19937& random) {
  static const char* const kPieces[] = {"text",
                                        "\n",
                                        " ü",
                                        "<think>\nwhy\n</think>\n\n",
                                        "<tool_call>",
                                        "</tool_call>",
                                        "\"",
                                        "}",
                                        "{",
                                        "\\",
                                        ", \"b\": [",
                                        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": ",
                                        "1}}\n</tool_call>",
                                        ("\n<tool_call>\n{\"name\": \"add\", "
                                         "\"arguments\": {\"a\": \"\\u00fc\\n</x>\", \"b\": {}}}\n</tool_call>")};
  std::string text;
  for (int i = random() % 8; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

// Also where calls are malformed, cut off, or have text around them.
TEST(CallDeltas, AStreamAddsUpToTheAnswerThatComesWhole) {
  std::mt19937 random(3);
  std::string text;
  bool cut = false;
  World world([&](const auto&) {
    Script script;
    script.text = text;
    script.chunk = 1 + static_cast<int>(random() % 5);
    script.end_of_turn = !cut;
    script.finish = cut ? v1::FINISH_LENGTH : v1::FINISH_STOP;
    return script;
  });
  world.with_admission = false;
  int calls = 0, malformed = 0;
  for (int trial = 0; trial < 100; ++trial) {
    text = "." + RandomOutput(random);
    if (trial % 3 == 0) text = text.substr(1) + " ";
    cut = trial % 5 == 0;
    for (const char* dialect : kDialects) {
      const auto streamed = world.Ask(dialect, "key", base::PrintJson(Request(dialect, true)));
      const auto whole = world.Ask(dialect, "key", base::PrintJson(Request(dialect, false)));
      ASSERT_TRUE(streamed.status.ok() && whole.status.ok()) << streamed.status << whole.status;
      ASSERT_EQ(WithoutIds(Collect(dialect, streamed)), WithoutIds(WholeOf(dialect, whole))) << dialect << "\n" << text;
      calls += WithoutIds(WholeOf(dialect, whole)).find("call_ID_0") != std::string::npos;
      const auto recorded = world.pool.calls();
      ASSERT_EQ(recorded.back().tool_call_malformed(), recorded.at(recorded.size() - 2).tool_call_malformed());
      malformed += recorded.back().tool_call_malformed();
    }
  }
  EXPECT_GT(calls, 50);
  EXPECT_GT(malformed, 50);
}

// The names of a stream's events, and the texts of its deltas.
std::string Emitted(const std::vector<WireEvent>& events) {
  std::string emitted;
  for (const WireEvent& event : events) {
    const value json = *base::ParseJson(event.data);
    if (event.name.empty() && base::Find(json, "choices") != nullptr) {
      emitted += base::PrintJson(json.at("choices").at(0).at("delta")) + "\n";
      continue;
    }
    emitted += event.name;
    if (const value* delta = base::Find(json, "delta")) emitted += " " + base::PrintJson(*delta);
    emitted += "\n";
  }
  return std::regex_replace(emitted, std::regex("[0-9a-f]{32}"), "ID");
}

// The engine holds back its last chunk, so all events before it were sent during sampling.
TEST(CallDeltas, ArgumentsAreSentWhileTheyAreSampled) {
  const std::pair<const char*, const char*> cases[] = {{"chat.completions",
                                                        R"({"role":"assistant","content":""}
{"content":"Hm."}
{"tool_calls":[{"id":"call_ID_0","type":"function","function":{"name":"add","arguments":""},"index":0}]}
{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}
{"tool_calls":[{"id":"call_ID_1","type":"function","function":{"name":"add","arguments":""},"index":1}]}
{"tool_calls":[{"index":1,"function":{"arguments":"{\"a\": 1"}}]}
)"},
                                                       {"responses",
                                                        R"(response.created
response.in_progress
response.output_item.added
response.content_part.added
response.output_text.delta "Hm."
response.output_text.done
response.content_part.done
response.output_item.done
response.output_item.added
response.function_call_arguments.delta "{}"
response.function_call_arguments.done
response.output_item.done
response.output_item.added
response.function_call_arguments.delta "{\"a\": 1"
)"},
                                                       {"messages",
                                                        R"(message_start
ping
content_block_start
content_block_delta {"type":"text_delta","text":"Hm."}
content_block_stop
content_block_start
content_block_delta {"type":"input_json_delta","partial_json":"{}"}
content_block_stop
content_block_start
content_block_delta {"type":"input_json_delta","partial_json":"{\"a\": 1"}
)"}};
  for (const auto& [dialect, expected] : cases) {
    World world([](const auto&) {
      Script script;
      script.text =
          "Hm.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", "
          "\"arguments\": {\"a\": 1";
      script.end_of_turn = false;
      script.finish = v1::FINISH_LENGTH;
      script.hold = true;
      return script;
    });
    const auto episode = world.Open();
    auto flag = std::make_shared<Flag>();
    const auto answer = world.gateway().StartAnswer(
        {.api_key = episode.api_key(), .episode = {}}, *FindDialect(dialect),
        {.body = base::PrintJson(Request(dialect, true)), .headers = {}}, [flag] { flag->Set(); });
    world.engine->WaitForHeld(1);
    EXPECT_EQ(Emitted(answer->TakeOutput().events), expected);
    world.engine->Release();
    std::string rest;
    for (Answer::Output out; !out.done;) {
      flag->WaitAndClear();
      out = answer->TakeOutput();
      for (const WireEvent& event : out.events) rest += event.data + "\n";
    }
    // A call that was cut off stays a call.
    for (const std::string& end : {std::string(R"("finish_reason":"length")"), std::string(R"("status":"incomplete")"),
                                   std::string(R"("stop_reason":"max_tokens")")}) {
      const bool here = end.find(dialect == std::string("messages")    ? "stop_reason"
                                 : dialect == std::string("responses") ? "status"
                                                                       : "finish_reason") != std::string::npos;
      EXPECT_EQ(rest.find(end) != std::string::npos, here) << dialect << "\n" << rest;
    }
    const auto calls = world.pool.calls();
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_TRUE(calls[0].tool_call_malformed());
  }
}

// A call that breaks the format after its arguments began stays a call and is flagged. The client's echo of it
// continues the sampled ids.
TEST(CallDeltas, ACallThatBreaksTheFormatStaysACall) {
  for (const char* dialect : kDialects) {
    for (const bool stream : {false, true}) {
      World world([](const v1::GenerateRequest& request) {
        Script script;
        const std::vector<int32_t> prompt(request.prompt_ids().begin(), request.prompt_ids().end());
        const bool first = TestTokenizer()->Decode(prompt, false).find("oops") == std::string::npos;
        script.text = first ? "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1 oops</tool_call>" : "Sorry.";
        return script;
      });
      const auto episode = world.Open();
      object body = Request(dialect, stream);
      const auto outcome = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      const value answer = stream ? Collect(dialect, outcome) : WholeOf(dialect, outcome);
      const bool as_object = dialect == std::string_view("messages");
      EXPECT_NE(base::PrintJson(answer).find(as_object ? R"("input":{"a":1}})" : R"({\"a\": 1 oops")"),
                std::string::npos)
          << base::PrintJson(answer);
      EXPECT_EQ(base::PrintJson(answer).find("tool_call>"), std::string::npos);
      if (dialect == std::string_view("responses")) {
        body["input"].as_array().push_back(answer.at(0));
        body["input"].as_array().push_back(
            object{{"type", "function_call_output"}, {"call_id", answer.at(0).at("call_id")}, {"output", "not JSON"}});
      } else if (dialect == std::string_view("messages")) {
        body["messages"].as_array().push_back(object{{"role", "assistant"}, {"content", answer}});
        const object result{{"type", "tool_result"}, {"tool_use_id", answer.at(0).at("id")}, {"content", "not JSON"}};
        body["messages"].as_array().push_back(object{{"role", "user"}, {"content", array{result}}});
      } else {
        body["messages"].as_array().push_back(answer);
        body["messages"].as_array().push_back(object{
            {"role", "tool"}, {"tool_call_id", answer.at("tool_calls").at(0).at("id")}, {"content", "not JSON"}});
      }
      ASSERT_TRUE(world.Ask(dialect, episode.api_key(), base::PrintJson(body)).status.ok());
      const auto calls = world.pool.calls();
      ASSERT_EQ(calls.size(), 2u);
      EXPECT_TRUE(calls[0].tool_call_malformed());
      EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id()) << dialect << " " << calls[1].fork_cause();
      EXPECT_FALSE(calls[1].tool_call_malformed());
    }
  }
}

// Whatever a model writes as arguments, Messages streams the text of one object, which is the input of the answer that
// comes whole. Sent back, it continues the sampled ids; a gateway that was started again knows it, too.
TEST(CallDeltas, MessagesStreamsAnObjectWhateverTheArguments) {
  std::mt19937 random(7);
  std::string text;
  bool cut = false;
  World world([&](const auto&) {
    Script script;
    script.text = text;
    script.chunk = 1 + static_cast<int>(random() % 7);
    script.end_of_turn = !cut;
    script.finish = cut ? v1::FINISH_LENGTH : v1::FINISH_STOP;
    return script;
  });
  int calls = 0, malformed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto episode = world.Open();
    text = absl::StrCat("<tool_call>\n{\"name\": \"add\", \"arguments\": ", RandomArguments(random));
    cut = random() % 3 == 0;
    if (random() % 4 > 0) text += "}\n</tool_call>";
    object body = Request("messages", true);
    const auto streamed = world.Ask("messages", episode.api_key(), base::PrintJson(body));
    body["stream"] = false;
    const auto whole = world.Ask("messages", episode.api_key(), base::PrintJson(body));
    ASSERT_TRUE(streamed.status.ok() && whole.status.ok()) << streamed.status << whole.status;
    const value answer = CollectMessages(streamed);
    ASSERT_EQ(WithoutIds(answer), WithoutIds(WholeOf("messages", whole))) << text;
    malformed += world.pool.calls().back().tool_call_malformed();
    const array& blocks = answer.as_array();
    if (blocks.empty() || blocks.back().at("type") != "tool_use") continue;
    ++calls;
    array results;
    for (const value& block : blocks) {
      if (block.at("type") != "tool_use") continue;
      results.push_back(object{{"type", "tool_result"}, {"tool_use_id", block.at("id")}, {"content", "no"}});
    }
    body["messages"].as_array().push_back(object{{"role", "assistant"}, {"content", answer}});
    body["messages"].as_array().push_back(object{{"role", "user"}, {"content", results}});
    ASSERT_TRUE(trial % 10 > 0 || world.Restart().ok());
    const std::string asked = text;
    text = "Sorry.";
    cut = false;
    const auto next = world.Ask("messages", episode.api_key(), base::PrintJson(body));
    ASSERT_TRUE(next.status.ok()) << next.status;
    const v1::Call call = world.pool.calls().back();
    EXPECT_EQ(call.parent_call_id(), world.pool.calls().at(world.pool.calls().size() - 3).call_id())
        << call.fork_cause() << "\n"
        << asked;
  }
  EXPECT_GT(calls, 150);
  EXPECT_GT(malformed, 100);
}

// A dialect that tells a call's text only at its end loses none of its tokens.
TEST(CallDeltas, EveryTokenIsSentOnce) {
  const std::string text =
      "Hm.\n<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** ü\"}}\n</tool_call>";
  World world([&](const auto&) {
    Script script;
    script.text = text;
    return script;
  });
  world.with_admission = world.with_pool = false;
  for (const char* dialect : {"chat.completions", "responses"}) {
    object body = Request(dialect, true);
    body["tools"] = dialect == std::string("responses")
                        ? base::json::parse(R"([{"type":"custom","name":"patch"}])")
                        : base::json::parse(R"([{"type":"custom","custom":{"name":"patch"}}])");
    const auto outcome = world.Ask(dialect, "key", base::PrintJson(body), {}, /*token_events=*/true);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    std::vector<int32_t> ids;
    for (const Token& token : outcome.tokens) ids.push_back(token.id);
    EXPECT_EQ(ids, TestTokenizer()->Encode(text + "<|im_end|>", true)) << dialect;
  }
  object body = Request("chat.completions", true);
  body["tools"] = base::json::parse(R"([{"type":"custom","custom":{"name":"patch"}}])");
  body["return_token_ids"] = true;
  array ids;
  for (const value& event : world.Ask("chat.completions", "key", base::PrintJson(body)).events) {
    const value* more = base::Find(event.at("choices").at(0), "token_ids");
    if (more != nullptr) ids.insert(ids.end(), more->as_array().begin(), more->as_array().end());
  }
  const std::vector<int32_t> sampled = TestTokenizer()->Encode(text + "<|im_end|>", true);
  EXPECT_EQ(value(ids), value(array(sampled.begin(), sampled.end())));
}

}  // namespace
}  // namespace ingot::gateway::call_deltas_test
