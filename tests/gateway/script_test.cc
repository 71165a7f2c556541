// A scripted model uses its lines in order, as far as a request matches them.
#include "gateway/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/fakes.h"
#include "text/output/output_format.h"

namespace ingot::gateway::script_test {
namespace {

absl::StatusOr<std::shared_ptr<ScriptedModel>> Parse(const std::string& text) {
  return ScriptedModel::Parse(text, *TestTokenizer(), *TestFormat());
}

GatewayRequest Asking(const std::string& text, bool tools = false) {
  GatewayRequest request;
  text::Message message;
  message.role = "user";
  message.content = text;
  request.conversation.messages.push_back(message);
  if (tools) request.conversation.tools.push_back(*base::ParseJson(R"({"type": "function"})"));
  return request;
}

std::string Text(const absl::StatusOr<std::vector<int32_t>>& ids) {
  return ids.ok() ? TestTokenizer()->Decode(*ids, false) : ids.status().ToString();
}

TEST(ScriptedModelTest, LinesAreTakenInOrderAndRepeatedOnesStay) {
  const auto script = Parse(R"({"output": "one"}
{"output": "two", "truncated": true}

{"output": "rest", "repeat": true})");
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("x"))), "one<|im_end|>");
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("x"))), "two");
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("x"))), "rest<|im_end|>");
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("x"))), "rest<|im_end|>");
}

TEST(ScriptedModelTest, ALineIsForRequestsThatMatchIt) {
  const auto script = Parse(R"({"output": "title", "tools": false}
{"output": "found", "contains": "needle"}
{"output": "first", "tools": true})");
  ASSERT_TRUE(script.ok()) << script.status();
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("hay", true))), "first<|im_end|>");
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("a needle", true))), "found<|im_end|>");
  EXPECT_EQ((*script)->NextAnswer(Asking("hay", true)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Text((*script)->NextAnswer(Asking("hay"))), "title<|im_end|>");
}

TEST(ScriptedModelTest, CallsAreWrittenAsTheFormatWritesThem) {
  const auto script = Parse(
      R"({"content": "I look.", "tool_calls": [{"name": "ls", "arguments": {"a": 1}}, {"name": "x", "arguments": "{bro"}]})");
  ASSERT_TRUE(script.ok()) << script.status();
  std::string text = Text((*script)->NextAnswer(Asking("x")));
  text.resize(text.size() - std::string("<|im_end|>").size());
  EXPECT_EQ(text,
            "I look.\n<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"a\":1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"x\", \"arguments\": {bro}\n</tool_call>");
  EXPECT_EQ((*text::FindOutputFormat("hermes"))->Parse(text).tool_calls.at(0).name, "ls");
}

TEST(ScriptedModelTest, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"output\": \"a\"}\n{\"outptu\": \"b\"}", "line 2 of the script: unknown field 'outptu'"},
      {"{\"output\": 1}", "'output' must be a string"},
      {"{\"output\": \"a\", \"repeat\": 1}", "'repeat' must be true or false"},
      {"[]", "must be a JSON object"},
      {"{\"output\": ", "line 1 of the script: malformed JSON"},
      {"{\"tool_calls\": [{\"name\": \"a\"}]}", "needs 'name' and 'arguments'"},
      {"\n", "no lines"},
  };
  for (const auto& [text, error] : cases) {
    const auto script = Parse(text);
    EXPECT_EQ(script.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(script.status().message()), ::testing::HasSubstr(error));
  }
}

}  // namespace
}  // namespace ingot::gateway::script_test
