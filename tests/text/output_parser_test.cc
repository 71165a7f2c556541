#include <gtest/gtest.h>

#include <random>

#include "cpu_time.h"
#include "text/chat.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

std::shared_ptr<const ChatFormat> Format(const std::string& name) {
  return *MakeChatFormat(name, MakeByteTokenizer({"<|im_start|>", "<|im_end|>"}));
}

TEST(ParseTest, ContentReasoningAndParallelCalls) {
  const auto parsed = Format("hermes")->Parse(
      "<think>\nhm\n</think>\n\nLook:\n<tool_call>\n{\"name\": \"f\\u00e9\", \"arguments\": {\"a\":  [1, \"}\"]}}\n"
      "</tool_call>\n<tool_call>{\"arguments\":{},\"name\":\"g\"}</tool_call>\n");
  EXPECT_EQ(parsed.reasoning, "hm");
  EXPECT_EQ(parsed.content, "Look:");
  EXPECT_FALSE(parsed.malformed);
  ASSERT_EQ(parsed.tool_calls.size(), 2u);
  EXPECT_EQ(parsed.tool_calls[0].name, "fé");
  EXPECT_EQ(parsed.tool_calls[0].arguments_json, "{\"a\":  [1, \"}\"]}");  // as written
  EXPECT_EQ(parsed.tool_calls[1].name, "g");
  EXPECT_EQ(parsed.tool_calls[1].arguments_json, "{}");
}

TEST(ParseTest, ACallMayQuoteItsOwnDelimiter) {
  const auto parsed = Format("compact")->Parse(
      R"(<tool_call>{"name": "f", "arguments": {"s": "</tool_call><tool_call>\""}}</tool_call>)");
  EXPECT_FALSE(parsed.malformed);
  ASSERT_EQ(parsed.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.tool_calls[0].arguments_json, R"({"s": "</tool_call><tool_call>\""})");
}

TEST(ParseTest, WhatIsNoCallStaysInTheContent) {
  for (const std::string& bad : {
           std::string("<tool_call>"),
           std::string("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n"),             // not closed
           std::string("<tool_call>\n{\"name\": \"f\", \"arguments\": {}\n</tool_call>"),  // not closed inside
           std::string("<tool_call>{\"name\": \"f\"}</tool_call>"),
           std::string("<tool_call>{\"name\": 3, \"arguments\": {}}</tool_call>"),
           std::string("<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"),
           std::string("<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}</tool_call>"),
           std::string("<tool_call>{'name': 'f', 'arguments': {}}</tool_call>"),
           std::string("<tool_call>{\"name\": \"f\", \"arguments\": {}} x</tool_call>"),
           std::string("<tool_call>{\"name\": \"f\xFF\", \"arguments\": {}}</tool_call>"),
       }) {
    const auto parsed = Format("hermes")->Parse("Hi\n" + bad);
    EXPECT_TRUE(parsed.malformed) << bad;
    EXPECT_EQ(parsed.content, "Hi\n" + bad);
    EXPECT_TRUE(parsed.tool_calls.empty());
  }
}

TEST(ParseTest, AGoodCallAfterABadOneCounts) {
  const auto parsed = Format("hermes")->Parse(
      "<tool_call>oops</tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call> done");
  EXPECT_TRUE(parsed.malformed);
  EXPECT_EQ(parsed.content, "<tool_call>oops</tool_call> done");
  EXPECT_EQ(parsed.tool_calls.size(), 1u);
}

TEST(ParseTest, DuplicateKeysKeepTheLastAsJsonDoes) {
  const auto parsed = Format("compact")->Parse(
      R"(<tool_call>{"name": "f", "arguments": {"a": 1}, "n": [{}], "arguments" : {"a": 2} }</tool_call>)");
  ASSERT_EQ(parsed.tool_calls.size(), 1u);
  EXPECT_EQ(parsed.tool_calls[0].arguments_json, R"({"a": 2})");
}

TEST(ParseTest, ReasoningThatWasCutOffIsAllReasoning) {
  const auto parsed = Format("hermes")->Parse("<think>\nI wonder <tool_call>");
  EXPECT_EQ(parsed.reasoning, "I wonder <tool_call>");
  EXPECT_EQ(parsed.content, "");
  EXPECT_FALSE(parsed.malformed);
}

// What a message renders to parses back to the message, in both formats.
TEST(ParseTest, UndoesRendering) {
  std::mt19937 rng(5);
  const auto tokenizer = MakeByteTokenizer({"<|im_start|>", "<|im_end|>"});
  for (int trial = 0; trial < 400; ++trial) {
    const auto format = Format(trial % 2 == 0 ? "hermes" : "compact");
    Conversation conversation;
    conversation.messages.resize(1);
    Message& message = conversation.messages[0];
    message.role = "assistant";
    const char* const texts[] = {"", "a", "two\n\nlines", "ends in newline\n", "<tool", "é"};
    message.content = texts[rng() % std::size(texts)];
    if (rng() % 2 == 0) message.reasoning = "because\nof \"that\"";
    for (int k = rng() % 3; k > 0; --k) {
      message.tool_calls.push_back(
          {"", rng() % 2 == 0 ? "f\"\n" : "look_up", R"({"k":"</tool_call>", "n": [1 , {}]})"});
    }
    const auto rendered = *format->Render(conversation, false);
    const auto [first, last] = rendered.sampled_ranges[0];
    const auto parsed =
        format->Parse(tokenizer->Decode(std::span(rendered.ids).subspan(first, last - 1 - first), false));
    EXPECT_EQ(parsed.content, message.content);
    EXPECT_EQ(parsed.reasoning, message.reasoning);
    EXPECT_FALSE(parsed.malformed);
    ASSERT_EQ(parsed.tool_calls.size(), message.tool_calls.size());
    for (size_t i = 0; i < parsed.tool_calls.size(); ++i) {
      EXPECT_EQ(parsed.tool_calls[i].name, message.tool_calls[i].name);
      EXPECT_EQ(parsed.tool_calls[i].arguments_json, message.tool_calls[i].arguments_json);
    }
  }
}

TEST(StreamTest, HoldsBackWhatCouldBeginACall) {
  const auto format = Format("hermes");
  EXPECT_EQ(format->StreamableContent("Hello"), 5u);
  EXPECT_EQ(format->StreamableContent("Hello\n"), 5u);    // the newline would be the call's
  EXPECT_EQ(format->StreamableContent("Hello\n\n"), 6u);  // the last one only
  EXPECT_EQ(format->StreamableContent("Hello<tool_c"), 5u);
  EXPECT_EQ(format->StreamableContent("Hello\n<"), 5u);
  EXPECT_EQ(format->StreamableContent("Hello\n<x"), 8u);
  EXPECT_EQ(format->StreamableContent("a < b"), 5u);
  EXPECT_EQ(format->StreamableContent("<thi"), 0u);
  EXPECT_EQ(format->StreamableContent("Hi\n<tool_call>{\"na"), 2u);
  EXPECT_EQ(Format("compact")->StreamableContent("Hello\n"), 6u);
}

std::string RandomOutput(std::mt19937& rng) {
  const char* const pieces[] = {"<think>",
                                "</think>",
                                "\n",
                                "\n\n",
                                " ",
                                "text",
                                "<tool_call>",
                                "</tool_call>",
                                "{\"name\": \"f\", \"arguments\": {}}",
                                "<tool_call>\n{\"name\": \"f\", \"arguments\": ",
                                "{",
                                "}",
                                "\"",
                                "\\",
                                "<",
                                "<t",
                                "tool_call>",
                                "\xF0\x9F\x98\x80",
                                "\xFF",
                                "[",
                                "]"};
  std::string output;
  for (int k = rng() % 14; k > 0; --k) output += pieces[rng() % std::size(pieces)];
  return output;
}

TEST(StreamTest, PiecesGiveWhatTheWholeGives) {
  std::mt19937 rng(6);
  for (int trial = 0; trial < 20000; ++trial) {
    const auto format = Format(trial % 2 == 0 ? "hermes" : "compact");
    const std::string output = RandomOutput(rng);
    const ParsedOutput whole = format->Parse(output);
    StreamParser stream(format);
    std::string content, reasoning;
    for (size_t at = 0; at < output.size();) {
      const size_t size = 1 + rng() % 5;
      const auto delta = stream.Push(std::string_view(output).substr(at, size));
      content += delta.content;
      reasoning += delta.reasoning;
      at += size;
      ASSERT_TRUE(whole.content.starts_with(content)) << output;
      ASSERT_TRUE(whole.reasoning.starts_with(reasoning)) << output;
    }
    StreamParser::Delta rest;
    const ParsedOutput finished = stream.Finish(rest);
    ASSERT_EQ(content + rest.content, whole.content) << output;
    ASSERT_EQ(reasoning + rest.reasoning, whole.reasoning) << output;
    ASSERT_EQ(finished.tool_calls.size(), whole.tool_calls.size());
  }
}

TEST(StreamTest, ContentComesBeforeTheEnd) {
  StreamParser stream(Format("hermes"));
  EXPECT_EQ(stream.Push("<think>\nhm").reasoning, "hm");
  EXPECT_EQ(stream.Push("\n</think>\n\nHel").content, "Hel");
  EXPECT_EQ(stream.Push("lo\n").content, "lo");
  EXPECT_EQ(stream.Push("you").content, "\nyou");
}

TEST(ParseTest, RandomBytesNeverCrash) {
  std::mt19937 rng(7);
  const auto format = Format("hermes");
  for (int trial = 0; trial < 2000; ++trial) {
    std::string output(rng() % 200, '\0');
    for (char& c : output) c = static_cast<char>(rng());
    output.insert(rng() % (output.size() + 1), "<tool_call>{");
    format->Parse(output);
    EXPECT_LE(format->StreamableContent(output), output.size());
  }
}

TEST(ParseTest, HostileOutputsTakeLinearTime) {
  std::string unclosed, deep = "<tool_call>";
  for (int i = 0; i < 40000; ++i) unclosed += "<tool_call>{</tool_call>";
  deep += std::string(1000000, '{');
  const double seconds = CpuSeconds([&] {
    EXPECT_TRUE(Format("hermes")->Parse(unclosed).malformed);
    EXPECT_TRUE(Format("hermes")->Parse(deep).malformed);
  });
  EXPECT_LT(seconds, 1.0 * kSlowdown);
}

TEST(PythonJsonTest, PrintsAsPython) {
  const auto round = [](const std::string& text) { return PythonJson(*base::ParseJson(text)); };
  // json.dumps(json.loads(text), ensure_ascii=False) of Python 3.11.
  EXPECT_EQ(round(R"({"a":[1,2.0,-0.5],"b":{},"c":[]})"), R"({"a": [1, 2.0, -0.5], "b": {}, "c": []})");
  EXPECT_EQ(round("[1e5,1e15,1e16,1.5e300,1e-4,1e-5,0.00012,123456.789,-0.0]"),
            "[100000.0, 1000000000000000.0, 1e+16, 1.5e+300, 0.0001, 1e-05, 0.00012, 123456.789, -0.0]");
  EXPECT_EQ(round(R"(["é\u00e9/\/\n\t\u0001\u007f\"\\"])"), "[\"éé//\\n\\t\\u0001\x7F\\\"\\\\\"]");
  EXPECT_EQ(round("[true,false,null,18446744073709551615,-9223372036854775808]"),
            "[true, false, null, 18446744073709551615, -9223372036854775808]");
}

}  // namespace
}  // namespace ingot::text
