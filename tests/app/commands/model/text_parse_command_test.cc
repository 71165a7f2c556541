#include "app/commands/model/text_parse_command.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/commands/model/text_command.h"

namespace ingot::app {
namespace {

// The printed result, or the error.
std::string Parsed(const std::string& format, const std::string& line) {
  const auto parse = MakeTextParse(format);
  if (!parse.ok()) return std::string(parse.status().message());
  const auto result = (*parse)(*base::ParseJson(line));
  return result.ok() ? base::PrintJson(*result) : std::string(result.status().message());
}

TEST(TextParse, PrintsOpenAisMessage) {
  EXPECT_EQ(Parsed("hermes", R"("Hello")"), R"({"role":"assistant","content":"Hello"})");
  EXPECT_EQ(
      Parsed("hermes",
             R"("<think>\nhm\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>")"),
      R"({"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"call_0",)"
      R"("type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]})");
  EXPECT_EQ(
      Parsed(
          "kimi_k2",
          R"("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:3<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>")"),
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"functions.f:3","type":"function",)"
      R"("function":{"name":"f","arguments":"{}"}}]})");
}

TEST(TextParse, TakesToolsPrefillAndMode) {
  const std::string call = R"x("<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>")x";
  EXPECT_NE(Parsed("glm45", call).find(R"({\"a\": 1})"), std::string::npos);
  EXPECT_NE(
      Parsed("glm45", R"x({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
                              "properties": {"a": {"type": "string"}}}}}], "text": )x" +
                          call + "}")
          .find(R"({\"a\": \"1\"})"),
      std::string::npos);
  EXPECT_EQ(Parsed("glm45", R"({"text": "hm</think>Hi", "prefill": "<think>"})"),
            R"({"role":"assistant","content":"Hi","reasoning_content":"hm"})");
  const std::string cut = R"({"text": "<tool_call>{\"name\": \"f\", \"arguments\": {\"a", "calls": ")";
  EXPECT_EQ(Parsed("hermes", cut + "whole\"}"),
            R"({"role":"assistant","content":"<tool_call>{\"name\": \"f\", \"arguments\": {\"a","malformed":true})");
  EXPECT_EQ(Parsed("hermes", cut + "streamed\"}"),
            R"({"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function",)"
            R"("function":{"name":"f","arguments":"{\"a"}}],"malformed":true})");
}

TEST(TextParse, ErrorsNameTheFault) {
  EXPECT_NE(Parsed("hermess", "1").find("known: hermes"), std::string::npos);
  EXPECT_NE(Parsed("/nowhere/row.json", "1").find("cannot read"), std::string::npos);
  const std::string folder = testing::TempDir() + "/folder.json";
  std::filesystem::create_directories(folder);
  EXPECT_NE(Parsed(folder, "1").find("cannot read"), std::string::npos);
  std::filesystem::remove(folder);
  EXPECT_NE(Parsed("hermes", "1").find("expected a JSON string"), std::string::npos);
  EXPECT_NE(Parsed("hermes", "{\"text\": 1}").find("'text' must be a string"), std::string::npos);
  EXPECT_NE(Parsed("hermes", "{\"text\": \"\", \"tool\": 1}").find("unknown field 'tool'"), std::string::npos);
  EXPECT_NE(Parsed("hermes", "{\"text\": \"\", \"tools\": 1}").find("'tools' must be a list"), std::string::npos);
  EXPECT_NE(Parsed("hermes", "{\"text\": \"\", \"calls\": \"x\"}").find("\"whole\""), std::string::npos);
}

// Malformed tools give no types, and break nothing.
TEST(TextParse, MalformedToolsAreIgnored) {
  for (const char* tools :
       {"[1, null, []]", "[{\"function\": 3}]", "[{\"function\": {\"name\": 1}}]", "null",
        R"([{"function": {"name": "f", "parameters": {"properties": {"a": {"$ref": "#/properties/a"}}}}}])",
        R"([{"function": {"name": "f", "parameters": {"properties": [1]}}}])"}) {
    EXPECT_NE(
        Parsed("glm45", std::string(R"x({"text": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n)x") +
                            R"x(</tool_call>", "tools": )x" + tools + "}")
            .find(R"({\"a\": 1})"),
        std::string::npos)
        << tools;
  }
}

TEST(TextParse, IsATextCommand) {
  std::istringstream in("\"Hi\"\n\n1\n{\"text\": \"a\"}\n");
  std::ostringstream out, errors;
  TextArgs args;
  args.format = "harmony";
  EXPECT_EQ(RunTextCommand("parse", args, in, out, errors), 1);
  EXPECT_EQ(out.str(),
            "{\"role\":\"assistant\",\"content\":\"Hi\"}\n{\"error\":\"expected a JSON string, or an object with the "
            "string 'text'\",\"line\":3}\n{\"role\":\"assistant\",\"content\":\"a\"}\n");
  args.format = "nope";
  EXPECT_EQ(RunTextCommand("parse", args, in, out, errors), 1);
  EXPECT_NE(errors.str().find("harmony"), std::string::npos);
}

TEST(TextParse, ReadsARowFromAFile) {
  const std::string path = testing::TempDir() + "/row.json";
  std::ofstream(path) << R"({"name": "mine", "sections": [{"call": "CALL {name} {json}"}]})";
  EXPECT_NE(Parsed(path, R"("CALL f {}")").find(R"("name":"f")"), std::string::npos);
  std::ofstream(path) << R"({"name": "mine", "sections": [{"call": "CALL {name}"}]})";
  EXPECT_NE(Parsed(path, "\"\"").find("exactly one of"), std::string::npos);
}

}  // namespace
}  // namespace ingot::app
