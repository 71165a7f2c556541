#include <gtest/gtest.h>

#include <random>

#include "cpu_time.h"
#include "text/chat/chat.h"
#include "text/output/output_stream.h"
#include "text/python_json.h"

namespace ingot::text {
namespace {

const OutputFormat* Format(const std::string& name) { return *FindOutputFormat(name); }

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

TEST(ParseTest, TextThatIsNoCallStaysInTheContent) {
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

TEST(ParseTest, AWellFormedCallAfterAMalformedOneCounts) {
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

TEST(ParseTest, TruncatedReasoningIsReasoning) {
  const auto parsed = Format("hermes")->Parse("<think>\nI wonder <tool_call>");
  EXPECT_EQ(parsed.reasoning, "I wonder <tool_call>");
  EXPECT_EQ(parsed.content, "");
  EXPECT_FALSE(parsed.malformed);
}

// Rendering a message and parsing the text gives the message, in both formats.
TEST(ParseTest, ReversesRendering) {
  std::mt19937 rng(5);
  const auto tokenizer = MakeByteTokenizer({"<|im_start|>", "<|im_end|>"});
  for (int trial = 0; trial < 400; ++trial) {
    const std::string name = trial % 2 == 0 ? "hermes" : "compact";
    const auto format = *MakeChatFormat(name, tokenizer);
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
        Format(name)->Parse(tokenizer->Decode(std::span(rendered.ids).subspan(first, last - 1 - first), false));
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

TEST(StreamTest, HoldsBackAPossibleBeginningOfACall) {
  const auto streamed = [](const std::string& name, const std::string& text) {
    OutputStream stream(OutputFormat::Make(Format(name)->row()).value(), {});
    return stream.Push(text).content;
  };
  EXPECT_EQ(streamed("hermes", "Hello"), "Hello");
  EXPECT_EQ(streamed("hermes", "Hello\n"), "Hello");      // the line feed may belong to a call
  EXPECT_EQ(streamed("hermes", "Hello\n\n"), "Hello\n");  // only the last one may
  EXPECT_EQ(streamed("hermes", "Hello<tool_c"), "Hello");
  EXPECT_EQ(streamed("hermes", "Hello\n<"), "Hello");
  EXPECT_EQ(streamed("hermes", "Hello\n<x"), "Hello\n<x");
  EXPECT_EQ(streamed("hermes", "a < b"), "a < b");
  EXPECT_EQ(streamed("hermes", "<thi"), "");
  EXPECT_EQ(streamed("hermes", "Hi\n<tool_call>{\"na"), "Hi");
  EXPECT_EQ(streamed("compact", "Hello\n"), "Hello\n");
}

TEST(StreamTest, ContentComesBeforeTheEnd) {
  OutputStream stream(OutputFormat::Make(Format("hermes")->row()).value(), {});
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
  // Expected: json.dumps(json.loads(text), ensure_ascii=False) of Python 3.11.
  EXPECT_EQ(round(R"({"a":[1,2.0,-0.5],"b":{},"c":[]})"), R"({"a": [1, 2.0, -0.5], "b": {}, "c": []})");
  EXPECT_EQ(round("[1e5,1e15,1e16,1.5e300,1e-4,1e-5,0.00012,123456.789,-0.0]"),
            "[100000.0, 1000000000000000.0, 1e+16, 1.5e+300, 0.0001, 1e-05, 0.00012, 123456.789, -0.0]");
  EXPECT_EQ(round(R"(["é\u00e9/\/\n\t\u0001\u007f\"\\"])"), "[\"éé//\\n\\t\\u0001\x7F\\\"\\\\\"]");
  EXPECT_EQ(round("[true,false,null,18446744073709551615,-9223372036854775808]"),
            "[true, false, null, 18446744073709551615, -9223372036854775808]");
}

}  // namespace
}  // namespace ingot::text
