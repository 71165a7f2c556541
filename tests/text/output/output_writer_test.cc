// Messages to text and back, and rows from JSON.
#include <gtest/gtest.h>

#include <random>

#include "text/output/output_format.h"

namespace ingot::text::output_writer_test {
namespace {

// name(arguments) of all calls, without the content around them.
std::string Calls(const ParsedOutput& parsed) {
  std::string out = parsed.malformed ? "MALFORMED " : "";
  for (const ToolCall& call : parsed.tool_calls) {
    out += (call.id.empty() ? "" : call.id + "=") + call.name + "(" + call.arguments_json + ")";
  }
  return out;
}

// ---- Writing ------------------------------------------------------------------------------------------------------

TEST(Writing, FollowsTheTemplates) {
  const auto write = [](const char* format, const std::string& content, const std::vector<ToolCall>& calls) {
    return (*FindOutputFormat(format))->WriteCalls(content, calls).value();
  };
  const ToolCall f{"", "f", R"({"a": "x", "b": [1, true]})"}, g{"", "g", "{}"};
  EXPECT_EQ(write("hermes", "Hi", {f, g}),
            "Hi\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\", \"b\": [1, true]}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(write("qwen3_coder", "", {f, g}),
            "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>\n[1, true]\n</parameter>\n"
            "</function>\n</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>");
  EXPECT_EQ(write("llama3_json", "", {f}), R"({"name": "f", "parameters": {"a": "x", "b": [1, true]}})");
  EXPECT_EQ(write("llama_pythonic", "", {f, g}), "[f(a='x', b=[1, True]), g()]");
  EXPECT_EQ(write("kimi_k2", "", {f, g}),
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"x\", "
            "\"b\": [1, true]}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}"
            "<|tool_call_end|><|tool_calls_section_end|>");
  EXPECT_EQ(write("minimax_m2", "Hi", {g, f}),
            "Hi\n<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n<invoke name=\"f\">\n<parameter name=\"a\">x"
            "</parameter>\n<parameter name=\"b\">[1, true]</parameter>\n</invoke>\n</minimax:tool_call>");
  EXPECT_EQ(write("glm45", "", {f}),
            "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>b</arg_key>\n"
            "<arg_value>[1, true]</arg_value>\n</tool_call>");
  EXPECT_EQ(write("harmony", "Hi", {g}),
            "<|channel|>commentary<|message|>Hi<|end|><|start|>assistant<|channel|>commentary to=functions.g "
            "<|constrain|>json<|message|>{}<|call|>");
  EXPECT_EQ((*FindOutputFormat("plain"))->WriteCalls("", std::vector{f}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*FindOutputFormat("glm45"))->WriteCalls("", std::vector{ToolCall{"", "f", "[]"}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Writing, FramesAForcedCallAroundItsArguments) {
  int framed = 0;
  for (const std::string& name : OutputFormatNames()) {
    const OutputFormat* format = *FindOutputFormat(name);
    const auto frame = format->FrameOf("get_weather");
    if (!frame.ok()) {
      EXPECT_EQ(frame.status().code(), absl::StatusCode::kUnimplemented) << name;
      continue;
    }
    ++framed;
    const auto parsed = format->Parse(frame->before + "{\"city\": \"}\"}" + frame->after);
    ASSERT_EQ(parsed.tool_calls.size(), 1u) << name;
    EXPECT_EQ(parsed.tool_calls[0].name, "get_weather");
    EXPECT_EQ(parsed.tool_calls[0].arguments_json, "{\"city\": \"}\"}");
    EXPECT_EQ(parsed.content, "") << name;
    EXPECT_FALSE(parsed.malformed) << name;
  }
  EXPECT_GE(framed, 9);
}

TEST(Writing, ParsesBack) {
  std::mt19937 random(11);
  const std::vector<base::json::value> tools = {*base::ParseJson(
      R"({"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":{
           "path":{"type":"string"},"text":{"type":"string"}}}}})")};
  const std::string texts[] = {"",       "x",         "two\nlines",        "</parameter> <tool", "it's \"q\" \\ \t",
                               "{\"a\"", "  spaced ", "日本語 \U0001F600", "</arg_value>\n\n",   "12"};
  const std::string contents[] = {"", "Look:", "a\n\nb", "x <b>"};
  for (int trial = 0; trial < 4000; ++trial) {
    const auto names = OutputFormatNames();
    const OutputFormat* format = *FindOutputFormat(names[trial % names.size()]);
    if (format->name() == "plain") continue;
    std::vector<ToolCall> calls;
    for (int k = 1 + random() % 3; k > 0; --k) {
      base::json::object arguments;
      arguments["path"] = texts[random() % std::size(texts)];
      if (random() % 2) arguments["text"] = texts[random() % std::size(texts)];
      if (random() % 2) arguments["other"] = base::json::array{1, -2.5, true, nullptr, {{"k", "v'\"\n"}}};
      calls.push_back({"", "write_file", base::PrintJson(arguments)});
    }
    const std::string content = contents[random() % std::size(contents)];
    const std::string written = format->WriteCalls(content, calls).value();
    const auto parsed = format->Parse(written, {.tools = tools});
    EXPECT_EQ(parsed.content, content) << format->name() << written;
    EXPECT_FALSE(parsed.malformed) << format->name() << written;
    ASSERT_EQ(parsed.tool_calls.size(), calls.size()) << format->name() << written;
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(parsed.tool_calls[i].name, "write_file");
      EXPECT_EQ(base::CanonicalJson(*base::ParseJson(parsed.tool_calls[i].arguments_json)),
                base::CanonicalJson(*base::ParseJson(calls[i].arguments_json)))
          << format->name() << written;
    }
  }
}

// ---- Rows ---------------------------------------------------------------------------------------------------------

TEST(OutputRows, CanBeReadFromJson) {
  const auto row = OutputRowFromJson(*base::ParseJson(
      R"x({"name": "mine", "think_begin": "((", "think_end": "))",
           "sections": [{"begin": "CALLS:{~}", "call": "{name} with {json}", "between": " and ", "end": "{~}END"}]})x"));
  ASSERT_TRUE(row.ok()) << row.status();
  const auto format = OutputFormat::Make(*row).value();
  const auto parsed = format->Parse("((why))Now CALLS: f with {\"a\": 1} and g with {} END");
  EXPECT_EQ(parsed.reasoning, "why");
  EXPECT_EQ(parsed.content, "Now ");
  EXPECT_EQ(Calls(parsed), "f({\"a\": 1})g({})");
}

TEST(OutputRows, NameTheirFaults) {
  const auto error = [](const char* json) {
    const auto row = OutputRowFromJson(*base::ParseJson(json));
    if (!row.ok()) return std::string(row.status().message());
    return std::string(OutputFormat::Make(*row).status().message());
  };
  EXPECT_NE(error(R"({"name": "x", "nome": 1})").find("unknown field"), std::string::npos);
  EXPECT_NE(error(R"({"name": 1})").find("name must be a string"), std::string::npos);
  EXPECT_NE(error(R"({"name": "x", "sections": [{"call": "<c>{nam}{json}"}]})").find("{nam}"), std::string::npos);
  EXPECT_NE(error(R"({"name": "x", "sections": [{"call": "<c>{name"}]})").find("not closed"), std::string::npos);
  EXPECT_NE(error(R"({"name": "x", "sections": [{"call": "<c>{name}</c>"}]})").find("exactly one of"),
            std::string::npos);
  EXPECT_NE(error(R"({"name": "x", "sections": [{"call": "{name} {json}"}]})").find("begin with text"),
            std::string::npos);
  EXPECT_NE(error(R"({"name": "x", "sections": [{"call": "<c>{name}>{parameters}</c>"}]})").find("`parameter`"),
            std::string::npos);
  EXPECT_NE(error(R"({"name": "x", "think_begin": "<t>"})").find("set together"), std::string::npos);
}

}  // namespace
}  // namespace ingot::text::output_writer_test
