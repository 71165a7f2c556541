#include "gateway/prompt/turn_text.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "cpu_time.h"
#include "gateway/fakes.h"
#include "text/output/output_pattern.h"
#include "text/output/output_samples.h"

namespace ingot::gateway::turn_text_test {
namespace {

struct Whole {
  std::string content, reasoning;  // of the pieces
  std::vector<text::ToolCall> calls;
  std::vector<PartKind> order;  // of the parts
  text::ParsedOutput message;
};

TurnText Turn(std::vector<std::string> stop, bool tools,
              std::shared_ptr<const text::ChatFormat> format = TestFormat()) {
  return TurnText({.tokenizer = TestTokenizer(),
                   .ends = format->end_of_turn_ids(),
                   .format = format->output(),
                   .reading = {.calls = tools ? text::CallMode::kStreamed : text::CallMode::kText},
                   .stop = std::move(stop)});
}

// Pushes `ids` in random pieces, and takes pieces of text in between or at the end.
Whole Play(const std::vector<int32_t>& ids, const std::string& stop, bool stopped, bool tools, bool stream,
           unsigned seed) {
  std::mt19937 random(seed);
  TurnText turn = Turn(stop.empty() ? std::vector<std::string>{} : std::vector{stop}, tools);
  Whole whole;
  std::optional<PartKind> open;
  const auto take = [&] {
    for (const TurnText::Delta& delta : turn.TakeDeltas()) {
      EXPECT_EQ(text::ToUtf8(delta.text), delta.text);  // whole characters
      if (delta.kind == PartKind::kContent) whole.content += delta.text;
      if (delta.kind == PartKind::kReasoning) whole.reasoning += delta.text;
      if (delta.begins) whole.calls.push_back({"", delta.name, ""});
      EXPECT_TRUE(delta.kind != PartKind::kCall || delta.begins || open == delta.kind)
          << "a call went on behind others";
      if (delta.kind == PartKind::kCall) whole.calls.back().arguments_json += delta.text;
      if (open != delta.kind || delta.begins) whole.order.push_back(delta.kind);
      open = delta.kind;
    }
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

void ExpectEqual(const std::vector<text::ToolCall>& a, const std::vector<text::ToolCall>& b, const std::string& text) {
  ASSERT_EQ(a.size(), b.size()) << text;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].name, b[i].name) << text;
    ASSERT_EQ(a[i].arguments_json, b[i].arguments_json) << text;
  }
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
                                        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": ",
                                        "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"};
  std::string text;
  for (int i = random() % 12; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

// The stop string that ended the turn is told if the client asks for it, but nothing behind it; and the text of the
// first ids has none.
TEST(TurnText, EndsAtTheStopStringThatEndedIt) {
  struct Case {
    const char* text;  // "STOP" ends it
    bool emits;
    int from;
    const char* emitted;
  };
  for (const Case& one :
       {Case{"one STOPped", false, 0, "one "}, Case{"one STOPped", true, 0, "one STOP"},
        Case{"STOP two STOPped", false, 1, "STOP two "}, Case{"STOP two STOPped", true, 4, "STOP two STOP"},
        Case{"STSTOP", true, 0, "STSTOP"}, Case{"ü STOP", true, 2, "ü STOP"}}) {
    for (size_t size = 1; size < 20; ++size) {
      TurnText turn({.tokenizer = TestTokenizer(),
                     .ends = TestFormat()->end_of_turn_ids(),
                     .format = TestFormat()->output(),
                     .reading = {.calls = text::CallMode::kText},
                     .stop = {"STOP", "never"},
                     .emits_stop = one.emits,
                     .stop_from = one.from});
      const std::vector<int32_t> ids = TestTokenizer()->Encode(one.text, true);
      std::string streamed;
      const auto take = [&] {
        for (const TurnText::Delta& delta : turn.TakeDeltas()) streamed += delta.text;
        EXPECT_TRUE(std::string_view(one.emitted).starts_with(streamed)) << streamed;
      };
      for (size_t at = 0; at < ids.size(); at += size) {
        turn.Push(std::span(ids).subspan(at, std::min(size, ids.size() - at)));
        take();
      }
      turn.Finish("STOP");
      take();
      EXPECT_EQ(streamed, one.emitted);
      EXPECT_EQ(turn.message().content, one.emitted);
    }
  }
}

TEST(TurnText, StreamedPiecesAddUpToTheMessageWhateverTheOutput) {
  std::mt19937 random(1);
  int calls = 0, reasoned = 0, malformed = 0;
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
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(streamed.message.tool_calls, whole.message.tool_calls, text));
    ASSERT_NO_FATAL_FAILURE(ExpectEqual(streamed.calls, whole.message.tool_calls, text));
    ASSERT_EQ(streamed.order, whole.order) << text;
    ASSERT_EQ(streamed.message.malformed, whole.message.malformed) << text;
    ASSERT_EQ(whole.message.content.find("<|im_end|>"), std::string::npos);
    if (stopped) {
      ASSERT_EQ(whole.message.content.find("STOP"), std::string::npos) << text;
    }
    if (!tools) {
      ASSERT_TRUE(whole.message.tool_calls.empty());
    }
    calls += !whole.message.tool_calls.empty();
    reasoned += !whole.message.reasoning.empty();
    malformed += whole.message.malformed && !whole.calls.empty();
  }
  EXPECT_GT(calls, 50);
  EXPECT_GT(malformed, 50);
  EXPECT_GT(reasoned, 50);
}

// The same for turns of every output format, sampled as ids of a tokenizer that has its delimiters as tokens.
TEST(TurnText, ChunksOfIdsChangeNothingInAnyFormat) {
  std::mt19937 random(5);
  for (const auto& format : text::All()) {
    std::vector<std::string> tokens = text::PossibleTokens(format->row());
    tokens.push_back("<|im_end|>");
    const auto tokenizer = text::MakeByteTokenizer(tokens);
    const auto marked = format->ForTokenizer(*tokenizer);
    text::Outputs outputs(*format, 9);
    int calls = 0;
    for (int trial = 0; trial < 150; ++trial) {
      std::vector<int32_t> ids = tokenizer->Encode(outputs.Next(), true);
      if (trial % 2 == 0) ids.resize(random() % (ids.size() + 1));
      const auto play = [&](size_t most, std::string& emitted) {
        TurnText turn({.tokenizer = tokenizer,
                       .ends = {*tokenizer->SpecialId("<|im_end|>")},
                       .format = marked,
                       .reading = {.tools = text::Tools(), .calls = text::CallMode::kStreamed},
                       .stop = {"never said"}});
        std::string texts[3];
        std::optional<PartKind> last;
        const auto take = [&] {
          for (const TurnText::Delta& delta : turn.TakeDeltas()) {
            const bool goes_on = delta.kind == PartKind::kCall && !delta.begins;
            EXPECT_TRUE(!goes_on || last == PartKind::kCall) << "a call went on behind others: " << format->name();
            last = delta.kind;
            if (delta.begins) texts[2] += "|" + delta.name + ":";
            texts[delta.kind == PartKind::kReasoning ? 0 : delta.kind == PartKind::kContent ? 1 : 2] += delta.text;
          }
        };
        for (size_t at = 0; at < ids.size();) {
          const size_t count = std::min<size_t>(1 + random() % most, ids.size() - at);
          turn.Push(std::span(ids).subspan(at, count));
          at += count;
          take();
        }
        turn.Finish("");
        take();
        emitted = texts[0] + "\n---\n" + texts[1] + "\n---\n" + texts[2];
        return turn.message();
      };
      std::string one_by_one, in_pieces, at_once;
      const text::ParsedOutput first = play(1, one_by_one), second = play(9, in_pieces), third = play(100000, at_once);
      ASSERT_EQ(one_by_one, at_once) << format->name();
      ASSERT_EQ(in_pieces, at_once) << format->name();
      std::string written = third.reasoning + "\n---\n" + third.content + "\n---\n";
      for (const text::ToolCall& call : third.tool_calls) written += "|" + call.name + ":" + call.arguments_json;
      ASSERT_EQ(at_once, written) << format->name();
      ASSERT_EQ(first.malformed, third.malformed);
      ASSERT_EQ(second.malformed, third.malformed);
      calls += !third.tool_calls.empty();
    }
    EXPECT_TRUE(calls > 20 || format->name() == "plain") << format->name();
  }
}

// The result of Take as text.
std::string Emitted(TurnText& turn) {
  std::string emitted;
  for (const TurnText::Delta& delta : turn.TakeDeltas()) {
    emitted += delta.kind == PartKind::kReasoning ? "R:" : delta.kind == PartKind::kContent ? "C:" : "A:";
    if (delta.begins) emitted += delta.name + ":";
    emitted += delta.text + "|";
  }
  return emitted;
}

// The end of the call is known only when no more text comes, and then the text behind it is known, too.
TEST(TurnText, TheRestOfACallStandsBeforeTheTextAfterIt) {
  TurnText turn({.tokenizer = TestTokenizer(),
                 .format = text::Shared("qwen3_coder"),
                 .reading = {.tools = text::Tools(), .calls = text::CallMode::kStreamed}});
  turn.Push(TestTokenizer()->Encode("<function=ping>\n</function>\n</tool_ca", false));
  EXPECT_EQ(Emitted(turn), "A:ping:{|");
  turn.Finish("");
  EXPECT_EQ(Emitted(turn), "A:}|C:</tool_ca|");
}

TEST(TurnText, HoldsBackPrefixesOfStopStringsAndToolCalls) {
  TurnText turn = Turn({"END"}, true);
  const auto push = [&](const std::string& text) {
    turn.Push(TestTokenizer()->Encode(text, true));
    return Emitted(turn);
  };
  EXPECT_EQ(push("one E"), "C:one |");
  EXPECT_EQ(push("N"), "");
  EXPECT_EQ(push("T"), "C:ENT|");
  EXPECT_EQ(push(" and \xE2"), "C: and |");
  EXPECT_EQ(push("\x82"), "");
  EXPECT_EQ(push("\xAC"), "C:€|");
  EXPECT_EQ(push("<tool_call>"), "");
  EXPECT_EQ(push("{"), "");
  turn.Finish("");
  EXPECT_EQ(Emitted(turn), "C:<tool_call>{|");
  EXPECT_TRUE(turn.message().malformed);
}

TEST(TurnText, ArgumentsAreReadyWhileTheyAreSampled) {
  TurnText turn = Turn({}, true);
  const auto push = [&](const std::string& text) {
    turn.Push(TestTokenizer()->Encode(text, true));
    return Emitted(turn);
  };
  EXPECT_EQ(push("Look:\n<tool_call>\n{\"name\": \"ad"), "C:Look:|");
  EXPECT_EQ(push("d\", \"arguments\": "), "");
  EXPECT_EQ(push("{\"a\": "), "A:add:{\"a\": |");
  EXPECT_EQ(push("\"\xC3"), "A:\"|");
  EXPECT_EQ(push("\xBC\"}}\n"), "A:ü\"|");  // the last brace once the call is closed
  EXPECT_EQ(push("</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>"), "A:}|A:g:{}|");
  turn.Finish("");
  EXPECT_EQ(Emitted(turn), "");
  EXPECT_FALSE(turn.message().malformed);
}

// Once its arguments were sent a call stays a call: what the model wrote goes to its arguments, and it is malformed.
TEST(TurnText, ACallThatBreaksTheFormatKeepsItsArguments) {
  TurnText turn = Turn({}, true);
  turn.Push(TestTokenizer()->Encode("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1", true));
  EXPECT_EQ(Emitted(turn), "A:add:{\"a\": 1|");
  turn.Push(TestTokenizer()->Encode(" oops</tool_call> and", true));
  turn.Finish("");
  EXPECT_EQ(Emitted(turn), "A: oops|C: and|");
  EXPECT_TRUE(turn.message().malformed);
  ASSERT_EQ(turn.message().tool_calls.size(), 1u);
  EXPECT_EQ(turn.message().tool_calls[0].arguments_json, "{\"a\": 1 oops");
}

// A stop string may end within a token's text, and may be told from one that only began.
TEST(TurnText, StopStringsAreFoundAsTheTextComes) {
  for (const std::string stop : {"aab", "abab", "<tool"}) {
    TurnText turn = Turn({stop}, true);
    std::string emitted;
    const std::string text = "aaabababx<tool_call>";
    const std::string before = text.substr(0, text.find(stop));
    for (const int32_t id : TestTokenizer()->Encode(text, true)) {
      turn.Push(std::span(&id, 1));
      for (const TurnText::Delta& delta : turn.TakeDeltas()) emitted += delta.text;
      EXPECT_TRUE(before.starts_with(emitted)) << stop << ": " << emitted;
    }
    turn.Finish(stop);
    for (const TurnText::Delta& delta : turn.TakeDeltas()) emitted += delta.text;
    EXPECT_EQ(emitted, before);
    EXPECT_EQ(turn.message().content, before);
  }
}

TEST(TurnText, CountsTheTokensWhoseTextWasTaken) {
  TurnText turn = Turn({}, true);
  turn.Push(TestTokenizer()->Encode("ab\xE2", true));
  EXPECT_EQ(turn.delivered_tokens(), 0);
  turn.TakeDeltas();
  EXPECT_EQ(turn.delivered_tokens(), 2);  // the third is a part of a character
  turn.Push(TestTokenizer()->Encode("\x82\xAC<tool_call>{", true));
  turn.TakeDeltas();
  EXPECT_EQ(turn.delivered_tokens(), 5);
  turn.Finish("");
  turn.TakeDeltas();
  EXPECT_EQ(turn.delivered_tokens(), 7);
}

TEST(TurnText, ReportsWhichIdsEachPieceCameFrom) {
  TurnText turn = Turn({}, true);
  const std::string text = "<think>\nab\n</think>\n\nc<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  const std::vector<int32_t> ids = TestTokenizer()->Encode(text, true);
  turn.Push(ids);
  turn.Finish("");
  const std::vector<TurnText::Delta> deltas = turn.TakeDeltas();
  ASSERT_EQ(deltas.size(), 3u);
  const auto ids_up_to = [&](const std::string& end) {
    return static_cast<int>(TestTokenizer()->Encode(text.substr(0, text.find(end) + end.size()), true).size());
  };
  EXPECT_EQ(deltas[0].last_id, ids_up_to("ab"));
  EXPECT_EQ(deltas[1].last_id, ids_up_to("\n\nc"));
  EXPECT_EQ(deltas[2].last_id, ids_up_to("</tool_call>"));
  EXPECT_EQ(turn.reasoning_tokens(), 2);
}

// Streaming token by token costs the same for every token, however long the turn: reasoning, content, arguments. A step
// over the turn so far for each token would be five billion steps, many times the limit.
TEST(TurnText, ALongTurnTakesLinearTime) {
  constexpr int kTokens = 100'000;
  const std::vector<int32_t> ids = TestTokenizer()->Encode("some <words>, ", true);
  for (const std::string before : {"", "<think>", "<tool_call>{\"name\": \"f\", \"arguments\": {\"text\": \""}) {
    size_t emitted = 0;
    const double seconds = CpuSeconds([&] {
      TurnText turn = Turn({"</never>", "never again"}, true);
      turn.Push(TestTokenizer()->Encode(before, true));
      for (int i = 0; i < kTokens; ++i) {
        turn.Push(std::span(&ids[i % ids.size()], 1));
        for (const TurnText::Delta& delta : turn.TakeDeltas()) emitted += delta.text.size();
      }
      turn.Finish("");
    });
    EXPECT_GT(emitted, static_cast<size_t>(kTokens) - 100);
    EXPECT_LT(seconds, 2.0 * kSlowdown) << before;
  }
}

}  // namespace
}  // namespace ingot::gateway::turn_text_test
