// Tool calls that a client is told in other words than the model's, and sends back as it was told them.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ingot::gateway
