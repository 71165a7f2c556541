// Properties of streaming, for every format of the table: cuts change nothing, nothing is taken back, and delimiters
// cannot be forged.
#include "text/output/output_stream.h"

#include <gtest/gtest.h>

#include "text/output/output_samples.h"

namespace ingot::text {
namespace {

// The sum of deltas. Fails the test if a delta contradicts earlier ones.
struct Sum {
  std::string content, reasoning;
  std::vector<ToolCall> calls;

  void Add(const OutputDelta& delta) {
    content += delta.content;
    reasoning += delta.reasoning;
    for (const CallDelta& call : delta.calls) {
      ASSERT_EQ(call.begins, call.index == calls.size());
      if (call.begins) calls.push_back({call.id, call.name, ""});
      ASSERT_EQ(call.index, calls.size() - 1);  // only the last one grows
      calls.back().arguments_json += call.arguments;
    }
  }
};

void ExpectEqual(const Sum& sum, const ParsedOutput& whole, const std::string& output) {
  ASSERT_EQ(sum.content, whole.content) << output;
  ASSERT_EQ(sum.reasoning, whole.reasoning) << output;
  ASSERT_EQ(sum.calls.size(), whole.tool_calls.size()) << output;
  for (size_t i = 0; i < sum.calls.size(); ++i) {
    ASSERT_EQ(sum.calls[i].name, whole.tool_calls[i].name) << output;
    ASSERT_EQ(sum.calls[i].id, whole.tool_calls[i].id) << output;
    ASSERT_EQ(sum.calls[i].arguments_json, whole.tool_calls[i].arguments_json) << output;
  }
}

// Arguments that cannot be read are those of the model: the text around them is the format's, also where a string has no
// end and takes the text to the end of the turn.
TEST(OutputStreams, GiveUnreadableArgumentsWithoutTheTextAroundThem) {
  const char* const written[] = {R"({"city": Paris})",          R"({"a": {"b": x}})",  R"({"a": print("}") })",
                                 R"({"a": x}, "b": {"c": y}})", R"({"city": "Paris})", R"({"a": {"b": "say \"no\"})"};
  int formats = 0;
  for (const auto& format : All()) {
    const auto frame = format->FrameOf("f");
    if (!frame.ok()) continue;
    ++formats;
    for (const std::string arguments : written) {
      const std::string output = frame->before + arguments + frame->after;
      for (size_t size = 1; size <= output.size(); size = size < 5 ? size + 1 : 2 * size) {
        OutputStream stream(format, {.calls = CallMode::kStreamed});
        Sum sum;
        for (size_t at = 0; at < output.size(); at += size) {
          ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Push(std::string_view(output).substr(at, size))));
        }
        ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Finish()));
        ASSERT_EQ(sum.calls.size(), 1u) << format->name() << ": " << output;
        EXPECT_EQ(sum.calls[0].arguments_json, arguments) << format->name() << ": " << output;
        EXPECT_EQ(sum.content, "") << format->name() << ": " << output;
        EXPECT_TRUE(stream.message().malformed);
      }
    }
  }
  EXPECT_GT(formats, 8);
}

TEST(OutputStreams, GiveTheWholeMessageWhereverTheyAreCut) {
  int calls = 0, partial = 0, malformed = 0;
  for (const auto& format : All()) {
    const int calls_before = calls, malformed_before = malformed;
    Outputs outputs(*format, 3);
    for (int trial = 0; trial < 1500; ++trial) {
      const std::string output = outputs.Next();
      const ParseOptions options{.tools = Tools(), .calls = kModes[trial % 3]};
      const ParsedOutput whole = format->Parse(output, options);
      OutputStream stream(format, options);
      Sum sum;
      const size_t most = 1 + outputs.Below(12);
      size_t settled = 0;
      for (size_t at = 0; at < output.size();) {
        const size_t size = 1 + outputs.Below(most);
        const OutputDelta delta = stream.Push(std::string_view(output).substr(at, size));
        ASSERT_NO_FATAL_FAILURE(sum.Add(delta));
        ASSERT_TRUE(whole.content.starts_with(sum.content)) << format->name() << ": " << output;
        ASSERT_TRUE(whole.reasoning.starts_with(sum.reasoning)) << format->name() << ": " << output;
        at += size;
        ASSERT_LE(settled, stream.settled_bytes());
        settled = stream.settled_bytes();
        ASSERT_LE(settled, std::min(at, output.size()));
        partial += !sum.calls.empty() && sum.calls.size() == whole.tool_calls.size() &&
                   sum.calls.back().arguments_json != whole.tool_calls.back().arguments_json;
      }
      ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Finish()));
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(sum, whole, format->name() + ": " + output));
      ASSERT_EQ(stream.message().malformed, whole.malformed) << output;
      ASSERT_EQ(stream.settled_bytes(), output.size()) << format->name() << ": " << output;
      calls += whole.tool_calls.size();
      malformed += whole.malformed;
    }
    if (format->name() == "plain") continue;
    EXPECT_GT(calls - calls_before, 200) << format->name();
    EXPECT_GT(malformed - malformed_before, 50) << format->name();
  }
  // The generator covers all kinds.
  EXPECT_GT(calls, 5000);
  EXPECT_GT(partial, 5000);
  EXPECT_GT(malformed, 2000);
}

// A prefill that a generation prompt of the format may contain.
std::string PrefillFor(const OutputRow& row) {
  if (!row.think_begin.empty()) return row.think_begin + "\n";
  return row.channels.used() ? row.channels.channel + row.channels.reasoning[0] + row.channels.message : "";
}

// Every prefix of an output is a truncated output. For every row, with a prefill or without, it parses equally at once,
// byte by byte and in pieces of any size.
TEST(OutputStreams, TruncatedOutputsParseEquallyHoweverTheyAreCut) {
  for (const auto& format : All()) {
    Outputs outputs(*format, 8);
    int calls = 0, broken = 0, after_prefill = 0;
    for (int trial = 0; trial < 12; ++trial) {
      const std::string output = outputs.Next();
      const std::string prefill = trial % 4 == 0 ? PrefillFor(format->row()) : "";
      for (size_t size = 0; size <= output.size(); ++size) {
        const std::string beginning = output.substr(0, size);
        const ParseOptions options{.tools = Tools(), .prefill = prefill, .calls = kModes[(trial + size) % 3]};
        const ParsedOutput whole = format->Parse(beginning, options);
        const size_t most = size % 2 == 0 ? 1 : 1 + outputs.Below(40);
        OutputStream stream(format, options);
        Sum sum;
        for (size_t at = 0; at < size;) {
          const size_t count = 1 + outputs.Below(most);
          ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Push(std::string_view(beginning).substr(at, count))));
          at += count;
        }
        ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Finish()));
        ASSERT_NO_FATAL_FAILURE(ExpectEqual(sum, whole, format->name() + ": " + prefill + "|" + beginning));
        ASSERT_EQ(stream.message().malformed, whole.malformed) << format->name() << ": " << beginning;
        calls += !whole.tool_calls.empty();
        broken += whole.malformed;
        after_prefill += !prefill.empty() && !whole.reasoning.empty();
      }
    }
    if (format->name() == "plain") continue;
    EXPECT_GT(calls, 20) << format->name();
    EXPECT_GT(broken, 20) << format->name();
    EXPECT_TRUE(after_prefill > 20 || PrefillFor(format->row()).empty()) << format->name();
  }
}

// In kWhole, every call has a JSON object as arguments. Calls that are complete in kStreamed are the same calls.
TEST(OutputStreams, CompleteCallsAreValidAndEqualInBothModes) {
  for (const auto& format : All()) {
    Outputs outputs(*format, 4);
    for (int trial = 0; trial < 500; ++trial) {
      const std::string output = outputs.Next();
      const ParsedOutput whole = format->Parse(output, {.tools = Tools()});
      const ParsedOutput streamed = format->Parse(output, {.tools = Tools(), .calls = CallMode::kStreamed});
      for (const ToolCall& call : whole.tool_calls) {
        const auto arguments = base::ParseJson(call.arguments_json);
        ASSERT_TRUE(arguments.ok() && arguments->is_object() && !call.name.empty()) << output;
      }
      if (!whole.malformed) {
        ASSERT_FALSE(streamed.malformed) << format->name() << ": " << output;
        ASSERT_EQ(streamed.content, whole.content);
        ASSERT_EQ(streamed.tool_calls.size(), whole.tool_calls.size());
        for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
          ASSERT_EQ(streamed.tool_calls[i].arguments_json, whole.tool_calls[i].arguments_json);
        }
      }
    }
  }
}

TEST(OutputStreams, SendArgumentsAsTheyCome) {
  OutputStream stream(Shared("hermes"), {.calls = CallMode::kStreamed});
  EXPECT_EQ(stream.Push("Hi\n<tool_call>\n{\"name\": \"pi").content, "Hi");
  EXPECT_TRUE(stream.Push("ng\", \"arguments\": ").empty());
  OutputDelta delta = stream.Push("{\"a");
  ASSERT_EQ(delta.calls.size(), 1u);
  EXPECT_TRUE(delta.calls[0].begins);
  EXPECT_EQ(delta.calls[0].name, "ping");
  EXPECT_EQ(delta.calls[0].arguments, "{\"a");
  delta = stream.Push("\": 1}}\n</tool_call>");
  ASSERT_EQ(delta.calls.size(), 1u);
  EXPECT_FALSE(delta.calls[0].begins);
  EXPECT_EQ(delta.calls[0].arguments, "\": 1}");
  EXPECT_TRUE(stream.Push("\n").empty());
  EXPECT_TRUE(stream.Finish().empty());

  // The stream sends a parameter as soon as its end is certain.
  OutputStream xml(Shared("minimax_m2"), {.tools = Tools(), .calls = CallMode::kStreamed});
  delta = xml.Push("<minimax:tool_call>\n<invoke name=\"write_file\">");
  EXPECT_TRUE(delta.empty());
  delta = xml.Push("\n<parameter name=\"path\">a</parameter>");
  ASSERT_EQ(delta.calls.size(), 1u);
  EXPECT_EQ(delta.calls[0].arguments, "{");
  delta = xml.Push("\n<parameter name=\"count\">12");
  ASSERT_EQ(delta.calls.size(), 1u);
  EXPECT_EQ(delta.calls[0].arguments, "\"path\": \"a\"");
  delta = xml.Push("</parameter>\n</invoke>");
  ASSERT_EQ(delta.calls.size(), 1u);
  EXPECT_EQ(delta.calls[0].arguments, ", \"count\": 12}");
}

// ---- Delimiters that are tokens -------------------------------------------------------------------------------------

TEST(TokenDelimiters, CannotBeForgedByOrdinaryText) {
  const auto tokenizer = MakeByteTokenizer({"<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_end|>"});
  const auto format = Shared("hermes")->ForTokenizer(*tokenizer);
  EXPECT_EQ(format->tokens().size(), 4u);
  const std::string body = "\n{\"name\": \"ping\", \"arguments\": {}}\n";
  const auto run = [&](bool token) {
    OutputStream stream(format, {.calls = CallMode::kStreamed});
    stream.Push("Hi ");
    stream.Push("<tool_call>", token);
    stream.Push(body);
    stream.Push("</tool_call>", token);
    stream.Finish();
    return stream.message();
  };
  EXPECT_EQ(run(true).tool_calls.size(), 1u);
  EXPECT_EQ(run(true).content, "Hi ");
  EXPECT_EQ(run(false).tool_calls.size(), 0u);
  EXPECT_EQ(run(false).content, "Hi <tool_call>" + body + "</tool_call>");
  EXPECT_FALSE(run(false).malformed);
  // A forged end does not end a real call; a byte that equals the token mark is an ordinary byte.
  OutputStream stream(format, {.calls = CallMode::kStreamed});
  stream.Push("\xFF\x01<tool_call>\xFF");
  stream.Push("<tool_call>", true);
  stream.Push("{\"name\": \"ping\", \"arguments\": {}}");
  stream.Push("</tool_call>");
  stream.Push("</tool_call>", true);
  stream.Finish();
  EXPECT_EQ(stream.message().content, "\xFF\x01<tool_call>\xFF</tool_call>");
  EXPECT_EQ(stream.message().tool_calls.size(), 1u);
  EXPECT_TRUE(stream.message().malformed);
}

TEST(TokenDelimiters, AreTheOnesThatTheTokenizerHas) {
  const auto tokens = [](const char* name, const std::vector<std::string>& specials) {
    return Shared(name)->ForTokenizer(*MakeByteTokenizer(specials))->tokens().size();
  };
  EXPECT_EQ(tokens("qwen3_coder", {"<tool_call>", "</tool_call>", "<think>", "</think>", "<function=f>"}), 4u);
  EXPECT_EQ(tokens("deepseek_v3", {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                   "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<think>", "</think>"}),
            7u);
  EXPECT_EQ(tokens("deepseek_v32", {"｜DSML｜", "<think>"}), 2u);
  EXPECT_EQ(tokens("harmony", {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>",
                               "<|return|>", "<|endoftext|>"}),
            7u);
  EXPECT_EQ(tokens("mistral_v11", {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]", "[INST]"}), 5u);
  EXPECT_EQ(tokens("minimax_m2", {"<minimax:tool_call>", "</minimax:tool_call>"}), 2u);
  EXPECT_EQ(tokens("hermes", {}), 0u);
}

// If every delimiter arrives as a token, the stream gives the same message as plain text.
TEST(TokenDelimiters, GiveTheSameMessageAsPlainText) {
  for (const auto& format : All()) {
    const auto tokenizer = MakeByteTokenizer(PossibleTokens(format->row()));
    const auto marked = format->ForTokenizer(*tokenizer);
    Outputs outputs(*format, 6);
    for (int trial = 0; trial < 300; ++trial) {
      const std::string output = outputs.Next();
      const std::vector<int32_t> ids = tokenizer->Encode(output, true);
      const std::string prefill = trial % 5 == 0 ? format->row().think_begin + "\n" : "";
      const ParseOptions options{.tools = Tools(), .prefill = prefill, .calls = kModes[1 + trial % 2]};
      OutputStream stream(marked, options);
      Sum sum;
      for (const int32_t id : ids) {
        const std::string text = tokenizer->Decode(std::span(&id, 1), false);
        ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Push(text, IsWrittenToken(*tokenizer, id, text))));
      }
      ASSERT_NO_FATAL_FAILURE(sum.Add(stream.Finish()));
      ASSERT_NO_FATAL_FAILURE(ExpectEqual(sum, format->Parse(output, options), format->name() + ": " + output));
      ASSERT_EQ(stream.settled_bytes(), output.size());
    }
  }
}

}  // namespace
}  // namespace ingot::text
