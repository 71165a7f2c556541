// Tool calls that a client is told in other words than the model's, and sends back as it was told them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;

// Samples `text`, sends all of it back as it came, with a result, and says how the second call began.
std::string CauseAfterEcho(const std::string& dialect, const std::string& text, bool cut, bool restarts) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  World world([=](const auto&) {
    Script script;
    script.text = (*calls)++ == 0 ? text : "Done.";
    if (cut && script.text == text) {
      script.finish = v1::FINISH_LENGTH;
      script.end_of_turn = false;
    }
    return script;
  });
  const auto episode = world.Open();
  const bool responses = dialect == "responses";
  const char* field = responses ? "input" : "messages";
  object body{{field, array{Msg("user", "go")}}};
  body["tools"] = base::json::parse(responses ? R"([{"type":"custom","name":"patch"},{"type":"local_shell"}])"
                                              : R"([{"type":"custom","custom":{"name":"patch"}}])");
  const auto first = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
  EXPECT_TRUE(first.status.ok()) << first.status;
  array& sent = body[field].as_array();
  if (responses) {
    const array& output = first.events[0].at("output").as_array();
    for (const auto& item : output) sent.push_back(item);
    for (const auto& item : output) {
      if (!item.as_object().contains("call_id")) continue;
      const std::string type(item.at("type").as_string());
      sent.push_back(object{{"type", type + "_output"}, {"call_id", item.at("call_id")}, {"output", "ok"}});
    }
  } else {
    sent.push_back(first.message());
    sent.push_back(Msg("tool", "ok"));
  }
  EXPECT_TRUE(!restarts || world.Restart().ok());
  const auto second = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
  EXPECT_TRUE(second.status.ok()) << second.status;
  const v1::Call call = world.pool.calls().back();
  EXPECT_EQ(call.parent_call_id().empty(), !call.fork_cause().empty());
  return call.fork_cause();
}

TEST(EchoedCalls, OfCustomToolsContinueAsTheyCame) {
  const char* const written[] = {R"({"input": "a"})",
                                 R"({"input": 5})",
                                 R"({"cmd": "a"})",
                                 R"({"input": null})",
                                 R"(["a"])",
                                 R"({"input": "a", "why": "b"})",
                                 R"({})",
                                 R"({"input": "a"} b)",
                                 "",
                                 R"({"input": "a)",
                                 R"({"input": "\u00e9")"};
  for (const char* arguments : written) {
    const std::string begun = absl::StrCat("<tool_call>\n{\"name\": \"patch\", \"arguments\": ", arguments);
    for (const char* dialect : {"responses", "chat.completions"}) {
      for (const bool restarts : {false, true}) {
        EXPECT_EQ(CauseAfterEcho(dialect, begun + "}\n</tool_call>", false, restarts), "") << dialect << arguments;
        EXPECT_EQ(CauseAfterEcho(dialect, begun, false, restarts), "") << "unclosed: " << dialect << arguments;
        // A gateway that starts again knows whole answers, and one that was cut at its length is whole.
        EXPECT_EQ(CauseAfterEcho(dialect, begun, true, restarts), "") << "cut: " << dialect << arguments;
      }
    }
  }
}

TEST(EchoedCalls, OfLocalShellsContinueAsTheyCame) {
  const char* const written[] = {R"({"command": ["ls"]})",
                                 R"({"command": "ls -l"})",
                                 R"({"command": ["ls"], "env": {}})",
                                 R"({"command": ["ls"], "env": {"A": "b"}, "timeout_ms": null})",
                                 R"({"command": null})",
                                 R"({"command": ["ls"], "type": "run"})",
                                 R"({})",
                                 R"(["ls"])",
                                 R"(ls -l)",
                                 R"({"command": ["ls)"};
  for (const char* arguments : written) {
    const std::string text =
        absl::StrCat("<tool_call>\n{\"name\": \"local_shell\", \"arguments\": ", arguments, "}\n</tool_call>");
    EXPECT_EQ(CauseAfterEcho("responses", text, false, false), "") << arguments;
    EXPECT_EQ(CauseAfterEcho("responses", text, false, true), "") << "after a restart: " << arguments;
  }
}

// Haystack and LiteLLM send a turn's calls before its text; the Agents SDK sends a turn of chat as two messages.
TEST(EchoedCalls, OfATurnInSeveralPartsContinueInAnyOrder) {
  for (const bool chat : {false, true}) {
    for (const bool calls_first : {false, true}) {
      auto calls = std::make_shared<std::atomic<int>>(0);
      World world([=](const auto&) {
        Script script;
        script.text = (*calls)++ > 0 ? "Done."
                                     : "I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>\n"
                                       "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
        return script;
      });
      const auto episode = world.Open();
      const char* dialect = chat ? "chat.completions" : "responses";
      object body{{chat ? "messages" : "input", array{Msg("user", "go")}}};
      body["tools"] = chat ? base::json::value(CalculatorTools())
                           : base::json::parse(R"([{"type":"function","name":"add","parameters":{"type":"object"}}])");
      const auto first = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
      ASSERT_TRUE(first.status.ok()) << first.status;
      array parts, results;
      if (chat) {
        object text = first.message().as_object(), called = text;
        text.erase("tool_calls");
        called["content"] = nullptr;
        parts = {text, called};
        for (const auto& call : called.at("tool_calls").as_array()) {
          object result = Msg("tool", "3");
          result["tool_call_id"] = call.at("id");
          results.push_back(result);
        }
      } else {
        parts = first.events[0].at("output").as_array();
        ASSERT_EQ(parts.size(), 3u);
        parts[0].as_object().erase("id");  // as a bridge that keeps the ids of calls alone
        for (size_t i : {1, 2}) {
          parts[i].as_object().erase("id");
          results.push_back(
              object{{"type", "function_call_output"}, {"call_id", parts[i].at("call_id")}, {"output", "3"}});
        }
      }
      if (calls_first) std::rotate(parts.begin(), parts.begin() + 1, parts.end());
      array& sent = body[chat ? "messages" : "input"].as_array();
      for (const array* list : {&parts, &results}) sent.insert(sent.end(), list->begin(), list->end());
      ASSERT_TRUE(world.Ask(dialect, episode.api_key(), base::PrintJson(body)).status.ok());
      const auto recorded = world.pool.calls();
      EXPECT_EQ(recorded.back().fork_cause(), "") << dialect << calls_first;
      EXPECT_EQ(recorded.back().parent_call_id(), recorded.front().call_id()) << dialect << calls_first;
    }
  }
}

}  // namespace
}  // namespace ingot::gateway
