#include "gateway/turn_text.h"

#include <gtest/gtest.h>

#include <random>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

struct Whole {
  std::string content, reasoning;  // of the deltas
  text::ParsedOutput message;
};

// Pushes `ids` in random pieces, taking deltas in between or only at the end.
Whole Play(const std::vector<int32_t>& ids, const std::string& stop, bool stopped, bool tools, bool stream,
           unsigned seed) {
  std::mt19937 random(seed);
  TurnText turn(TestTokenizer(), TestFormat(), stop.empty() ? std::vector<std::string>{} : std::vector{stop},
                tools ? Reading::kMessage : Reading::kNoTools);
  Whole whole;
  const auto take = [&] {
    const TurnText::Delta delta = turn.TakeDelta();
    for (const std::string* piece : {&delta.content, &delta.reasoning}) {
      EXPECT_EQ(text::ToUtf8(*piece), *piece);  // whole characters
    }
    whole.content += delta.content;
    whole.reasoning += delta.reasoning;
  };
  for (size_t at = 0; at < ids.size();) {
    const size_t count = std::min<size_t>(1 + random() % 4, ids.size() - at);
    turn.Push(std::span(ids).subspan(at, count));
    at += count;
    if (stream) take();
  }
  turn.Finish(stopped ? stop : "");
  take();
  whole.message = turn.message();
  return whole;
}

std::string Random(std::mt19937& random) {
  static const char* const kPieces[] = {"a",
                                        "\n",
                                        " ",
                                        "<tool_call>",
                                        "<tool",
                                        "</tool_call>",
                                        "ü",
                                        "\xF0\x9F\x99\x82",
                                        "\xFF",
                                        "\xE2\x82",
                                        "<think>",
                                        "</think>",
                                        "{\"name\": \"f\", \"arguments\": {}}",
                                        "STOP",
                                        "ST",
                                        "<|im_start|>",
                                        "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"};
  std::string text;
  for (int i = random() % 12; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

TEST(TurnText, StreamedDeltasAddUpToTheMessageWhateverTheOutput) {
  std::mt19937 random(1);
  int calls = 0, reasoned = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = Random(random);
    const bool tools = random() % 2, with_stop = random() % 2;
    const std::string stop = with_stop ? "STOP" : "";
    const size_t at = text.find("STOP");
    const bool stopped = with_stop && at != std::string::npos;
    if (stopped) text.resize(at + 4);  // the engine ends there
    std::vector<int32_t> ids = TestTokenizer()->Encode(text, true);
    if (!stopped) ids.push_back(TestFormat()->end_of_turn_ids()[0]);
    const Whole streamed = Play(ids, stop, stopped, tools, true, i);
    const Whole whole = Play(ids, stop, stopped, tools, false, i);
    ASSERT_EQ(streamed.content, whole.message.content) << text;
    ASSERT_EQ(streamed.reasoning, whole.message.reasoning) << text;
    ASSERT_EQ(whole.content, whole.message.content) << text;
    ASSERT_EQ(streamed.message.tool_calls.size(), whole.message.tool_calls.size());
    ASSERT_EQ(whole.message.content.find("<|im_end|>"), std::string::npos);
    if (stopped) {
      ASSERT_EQ(whole.message.content.find("STOP"), std::string::npos) << text;
    }
    if (!tools) {
      ASSERT_TRUE(whole.message.tool_calls.empty());
    }
    calls += !whole.message.tool_calls.empty();
    reasoned += !whole.message.reasoning.empty();
  }
  EXPECT_GT(calls, 50);
  EXPECT_GT(reasoned, 50);
}

TEST(TurnText, HoldsBackWhatCouldBecomeAStopStringOrAToolCall) {
  TurnText turn(TestTokenizer(), TestFormat(), {"END"}, Reading::kMessage);
  const auto push = [&](const std::string& text) {
    turn.Push(TestTokenizer()->Encode(text, true));
    return turn.TakeDelta().content;
  };
  EXPECT_EQ(push("one E"), "one ");
  EXPECT_EQ(push("N"), "");
  EXPECT_EQ(push("T"), "ENT");
  EXPECT_EQ(push(" and \xE2"), " and ");
  EXPECT_EQ(push("\x82"), "");
  EXPECT_EQ(push("\xAC"), "€");
  EXPECT_EQ(push("<tool_call>"), "");
  EXPECT_EQ(push("{"), "");
  turn.Finish("");
  EXPECT_EQ(turn.TakeDelta().content, "<tool_call>{");
  EXPECT_TRUE(turn.message().malformed);
}

TEST(TurnText, CountsTheTokensWhoseTextWasTaken) {
  TurnText turn(TestTokenizer(), TestFormat(), {}, Reading::kMessage);
  turn.Push(TestTokenizer()->Encode("ab<tool_call>x", true));
  EXPECT_EQ(turn.delivered_tokens(), 0);
  turn.TakeDelta();
  EXPECT_EQ(turn.delivered_tokens(), 2);
  turn.Finish("");
  turn.TakeDelta();
  EXPECT_EQ(turn.delivered_tokens(), 4);
}

}  // namespace
}  // namespace ingot::gateway
