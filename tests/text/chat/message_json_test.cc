#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/chat/chat.h"

namespace ingot::text {
namespace {

using testing::HasSubstr;

absl::StatusOr<Message> Read(const std::string& text) { return MessageFromJson(*base::ParseJson(text)); }

TEST(MessageJsonTest, ReadsTheFormsClientsSend) {
  EXPECT_EQ(Read(R"({"role": "developer", "content": "x"})")->role, "system");
  EXPECT_EQ(
      Read(R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})")->content,
      "ab");
  EXPECT_EQ(Read(R"({"role": "assistant", "content": null, "tool_calls": null})")->content, "");
  EXPECT_EQ(Read(R"({"role": "assistant", "reasoning": "r"})")->reasoning, "r");
  const auto call = Read(R"({"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function":
      {"name": "f", "arguments": "{ \"a\":1}"}}, {"function": {"name": "g", "arguments": {"b": 1.0}}},
      {"function": {"name": "h"}}]})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->tool_calls[0].id, "c");
  EXPECT_EQ(call->tool_calls[0].arguments_json, "{ \"a\":1}");
  EXPECT_EQ(call->tool_calls[1].arguments_json, "{\"b\": 1.0}");
  EXPECT_EQ(call->tool_calls[2].arguments_json, "");
  EXPECT_EQ(Read(R"({"role": "tool", "tool_call_id": "c", "content": "7"})")->tool_call_id, "c");
}

TEST(MessageJsonTest, ErrorsSayWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"role": "user", "content": [{"type": "image_url", "image_url": {}}]})", "image_url"},
      {R"({"role": "user", "content": [{"text": "a"}]})", "part 0"},
      {R"({"role": "user", "content": 3})", "content"},
      {R"({"role": "user"})", "content"},
      {R"({"role": "robot", "content": "x"})", "robot"},
      {R"({"content": "x"})", "role"},
      {R"("x")", "object"},
      {R"({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}, {"function": {}}]})", "tool_calls[1]"},
      {R"({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 3}}]})", "arguments"},
      {R"({"role": "assistant", "tool_calls": {}})", "array"},
  };
  for (const auto& [text, cause] : cases) {
    const auto message = Read(text);
    EXPECT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(message.status().message()), HasSubstr(cause));
  }
}

TEST(MessageJsonTest, WritesWhatItReads) {
  for (
      const char* text : {
          R"({"role":"user","content":"x","name":"n"})",
          R"({"role":"assistant","content":"","reasoning_content":"r"})",
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]})",
          R"({"role":"tool","content":"7","tool_call_id":"c"})",
      }) {
    EXPECT_EQ(base::PrintJson(MessageToJson(*Read(text))), text);
  }
}

TEST(ConversationJsonTest, ErrorsNameTheMessageOrTool) {
  const auto read = [](const std::string& text) { return ConversationFromJson(*base::ParseJson(text)).status(); };
  EXPECT_TRUE(read(R"({"messages": [{"role": "user", "content": "x"}], "tools": null, "model": "m"})").ok());
  EXPECT_THAT(std::string(read(R"({"messages": [{"role": "user", "content": "x"}, {}]})").message()),
              HasSubstr("messages[1]"));
  EXPECT_THAT(std::string(read(R"({"messages": [{"role": "user", "content": "x"}], "tools": [{}]})").message()),
              HasSubstr("tools[0]"));
  for (const char* text : {"{}", "[]", R"({"messages": []})", R"({"messages": {}})",
                           R"({"messages": [{"role": "user", "content": "x"}], "tools": {}})"}) {
    EXPECT_EQ(read(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

base::json::value RandomJson(std::mt19937& rng, int depth) {
  const char* const words[] = {"role",     "content", "messages",  "tools", "user", "assistant", "tool_calls",
                               "function", "name",    "arguments", "type",  "text", "tool"};
  const int kind = rng() % (depth > 0 ? 6 : 4);
  if (kind == 0) return nullptr;
  if (kind == 1) return static_cast<int64_t>(rng());
  if (kind <= 3) return words[rng() % std::size(words)];
  if (kind == 4) {
    base::json::array array;
    for (int k = rng() % 4; k > 0; --k) array.push_back(RandomJson(rng, depth - 1));
    return array;
  }
  base::json::object object;
  for (int k = rng() % 6; k > 0; --k) object[words[rng() % std::size(words)]] = RandomJson(rng, depth - 1);
  return object;
}

TEST(ConversationJsonTest, AnyJsonIsReadOrRejected) {
  std::mt19937 rng(8);
  for (int trial = 0; trial < 20000; ++trial) {
    const base::json::value value = RandomJson(rng, 5);
    if (const auto message = MessageFromJson(value); message.ok()) MessageToJson(*message);
    (void)ConversationFromJson(value).ok();
  }
}

}  // namespace
}  // namespace ingot::text
