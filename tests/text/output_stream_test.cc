// Properties of streaming, for every format of the table: cutting changes nothing, nothing is taken back, delimiters
// cannot be forged, time is linear, no input crashes.
#include "text/output_stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace ingot::text {
namespace {

const std::vector<base::json::value>& Tools() {
  static const auto* const tools = new std::vector<base::json::value>{*base::ParseJson(
      R"({"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":{
           "path":{"type":"string"},"text":{"type":"string"},"count":{"type":"integer"}}}}})")};
  return *tools;
}

std::shared_ptr<const OutputFormat> Shared(const std::string& name) {
  return OutputFormat::Make((*FindOutputFormat(name))->row()).value();
}

std::vector<std::shared_ptr<const OutputFormat>> All() {
  std::vector<std::shared_ptr<const OutputFormat>> all;
  for (const std::string& name : OutputFormatNames()) all.push_back(Shared(name));
  return all;
}

// What deltas add up to. Fails the test when a delta contradicts those before it.
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

// Literal texts of the format, and beginnings of them.
std::vector<std::string> Pieces(const OutputRow& row) {
  std::vector<std::string> pieces = {"text",
                                     " ",
                                     "\n",
                                     "\n\n",
                                     "<",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "\"",
                                     "'",
                                     "\\",
                                     ",",
                                     ":",
                                     "(",
                                     ")",
                                     "=",
                                     "a",
                                     "1",
                                     "True",
                                     "é",
                                     "\U0001F600",
                                     "\xFF",
                                     "{\"a\": \"b\"}",
                                     "{}",
                                     "ping",
                                     "\"name\": \"ping\", ",
                                     "\"arguments\": ",
                                     "[TOOL_CALLS]",
                                     "<think>"};
  std::vector<std::string> texts = {row.think_begin,        row.think_end,          row.parameter,
                                    row.channels.start,     row.channels.channel,   row.channels.message,
                                    row.channels.constrain, row.channels.write_call};
  texts.insert(texts.end(), row.channels.ends.begin(), row.channels.ends.end());
  for (const SectionRow& section : row.sections) {
    texts.insert(texts.end(), {section.begin, section.call, section.end, section.between, section.before});
  }
  for (const std::string& text : texts) {
    std::string literal;
    for (size_t at = 0; at <= text.size(); ++at) {
      if (at < text.size() && text[at] != '{' && text[at] != '}') {
        literal += text[at];
        continue;
      }
      if (!literal.empty()) {
        pieces.push_back(literal);
        pieces.push_back(literal.substr(0, literal.size() / 2));
        pieces.push_back(literal.substr(literal.size() / 2));
      }
      literal.clear();
      if (at < text.size() && text[at] == '{') at = text.find('}', at);
    }
  }
  return pieces;
}

class Outputs {
 public:
  Outputs(const OutputFormat& format, unsigned seed) : format_(format), pieces_(Pieces(format.row())), random_(seed) {}

  // A good output, a mutilated one, or rubble.
  std::string Next() {
    std::string output;
    const int kind = random_() % 4;
    if (kind > 0) output = Good();
    if (kind == 0) {
      for (int k = random_() % 16; k > 0; --k) output += Piece();
    } else if (kind > 1) {
      for (int k = 1 + random_() % 3; k > 0; --k) Mutilate(output);
    }
    return output;
  }

  size_t Below(size_t bound) { return random_() % bound; }
  const std::string& Piece() { return pieces_[random_() % pieces_.size()]; }

 private:
  std::string Good() {
    std::string output;
    const OutputRow& row = format_.row();
    if (random_() % 3 == 0 && !row.think_begin.empty()) output = row.think_begin + "\nwhy\n\n" + row.think_end + "\n\n";
    if (random_() % 3 == 0 && row.channels.used()) {
      output = "<|channel|>analysis<|message|>why<|end|><|start|>assistant";
    }
    std::vector<ToolCall> calls;
    for (int k = random_() % 3; k > 0 && format_.name() != "plain"; --k) {
      calls.push_back(
          {"", random_() % 2 ? "write_file" : "ping", R"({"path": "é\n</x>", "count": 3, "more": [1, {"k": null}]})"});
    }
    return output + *format_.WriteCalls(random_() % 2 ? "Content:\n  x" : "", calls) + (random_() % 4 ? "" : "\nmore");
  }

  void Mutilate(std::string& output) {
    const size_t at = random_() % (output.size() + 1), size = random_() % 8;
    switch (random_() % 4) {
      case 0:
        output.resize(at);
        break;
      case 1:
        output.erase(at, size);
        break;
      case 2:
        output.insert(at, Piece());
        break;
      default:
        output += output.substr(at / 2);
    }
  }

  const OutputFormat& format_;
  const std::vector<std::string> pieces_;
  std::mt19937 random_;
};

constexpr CallMode kModes[] = {CallMode::kText, CallMode::kWhole, CallMode::kStreamed};

TEST(OutputStreams, CutAnywhereGiveWhatTheWholeGives) {
  int calls = 0, partial = 0, malformed = 0;
  for (const auto& format : All()) {
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
  }
  // The generator makes what it is for.
  EXPECT_GT(calls, 5000);
  EXPECT_GT(partial, 5000);
  EXPECT_GT(malformed, 2000);
}

// Whole calls are right ones: JSON objects. And where calls stream, those that are whole are the same.
TEST(OutputStreams, WholeCallsAreRightAndTheSameInBothModes) {
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

TEST(OutputStreams, ASettledPrefixNeverChanges) {
  for (const auto& format : All()) {
    Outputs outputs(*format, 5);
    for (int trial = 0; trial < 300; ++trial) {
      const std::string output = outputs.Next();
      const ParsedOutput whole = format->Parse(output);
      const size_t cut = outputs.Below(output.size() + 1);
      const size_t settled = format->SettledPrefix(std::string_view(output).substr(0, cut));
      ASSERT_LE(settled, cut);
      const ParsedOutput part = format->Parse(std::string_view(output).substr(0, settled));
      ASSERT_TRUE(whole.content.starts_with(part.content)) << format->name() << ": " << output;
      ASSERT_TRUE(whole.reasoning.starts_with(part.reasoning)) << format->name() << ": " << output;
      ASSERT_TRUE(part.tool_calls.empty());
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

  // A parameter at a time, once it is certain that it ended.
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

// ---- Tokens -------------------------------------------------------------------------------------------------------

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
  // A forged end inside a real call is no end; a byte that reads like the mark of a token is a byte.
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

TEST(TokenDelimiters, AreFoundInEveryRowThatHasThem) {
  const std::vector<std::pair<const char*, size_t>> expected = {{"hermes", 4},  {"deepseek_v3", 7}, {"kimi_k2", 7},
                                                                {"harmony", 7}, {"mistral_v11", 5}, {"command_r7b", 8}};
  for (const auto& [name, count] : expected) {
    const auto format = Shared(name);
    const auto tokens = PossibleTokens(format->row());
    EXPECT_EQ(format->ForTokenizer(*MakeByteTokenizer(tokens))->tokens().size(), count) << name;
  }
}

// Where every delimiter comes as a token, the stream says what the text alone says.
TEST(TokenDelimiters, GiveWhatTheTextGives) {
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

// ---- Hostile input ------------------------------------------------------------------------------------------------

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string Repeat(const std::string& text, size_t size) {
  std::string out;
  while (out.size() < size) out += text;
  return out;
}

TEST(HostileOutputs, TakeLinearTime) {
  constexpr size_t kSize = 1 << 20;
  double slowest = 0;
  std::string slowest_name;
  for (const auto& format : All()) {
    std::vector<std::string> repeated = {"{",  "[", "\"", " ", "\n", "<", "\\", "\xFF", "{\"a\":", "</parameter> ",
                                         "</x"};
    std::string prefix;
    for (const SectionRow& section : format->row().sections) {
      for (const std::string& piece : Pieces({.sections = {section}, .parameter = format->row().parameter})) {
        if (piece.size() > 3) repeated.push_back(piece);
      }
    }
    if (format->row().channels.used()) repeated.insert(repeated.end(), {"<|channel|>", "<|start|>", "<|message|>{"});
    if (const auto frame = format->FrameOf("f"); frame.ok()) {
      repeated.push_back(frame->before);
      repeated.push_back(frame->before + "{");
      repeated.push_back(frame->before + "{\"a" + frame->after);
      prefix = frame->before + "{\"a\": \"";
    } else if (format->name() != "plain") {
      prefix = format->WriteCalls("", std::vector<ToolCall>{{"", "f", R"({"k": "v"})"}}).value();
      repeated.push_back(prefix.substr(0, prefix.size() / 2));
      prefix.resize(prefix.find('v'));
    }
    for (size_t i = 0; i < repeated.size(); ++i) {
      for (const bool prefixed : {false, true}) {
        const std::string output = (prefixed ? prefix : "") + Repeat(repeated[i], kSize / 4);
        const double seconds = Seconds([&] { format->Parse(output, {.tools = Tools(), .calls = kModes[1 + i % 2]}); });
        if (seconds > slowest) {
          slowest = seconds;
          slowest_name = format->name() + ": " + repeated[i];
        }
      }
    }
  }
  EXPECT_LT(slowest, 1.0) << slowest_name;
  RecordProperty("slowest", slowest_name);
}

TEST(HostileOutputs, TakeLinearTimeByteByByte) {
  constexpr size_t kSize = 1 << 18;
  const std::vector<std::pair<const char*, std::string>> cases = {
      {"hermes", Repeat(" ", kSize)},
      {"hermes", "<think>" + Repeat("\n", kSize)},
      {"hermes", "<think>x" + Repeat("\n", kSize)},
      {"hermes", "<tool_call>" + Repeat(" ", kSize)},
      {"hermes", "<tool_call>{\"name\": \"" + Repeat("x", kSize)},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"" + Repeat("x", kSize)},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>" + Repeat("\n", kSize)},
      {"qwen3_coder", "<function=f>" + Repeat("\n", kSize)},
      {"qwen3_coder", "<function=f><parameter=a>x</parameter>" + Repeat("\n", kSize)},
      {"qwen3_coder", "<function=f><parameter=a>" + Repeat("</parameter> x", kSize)},
      {"llama_pythonic", "[f(a='" + Repeat("x", kSize)},
      {"llama_pythonic", "[f(a=" + Repeat("[", kSize)},
      {"kimi_k2", Repeat("<|tool_calls_section_begin|><|tool_call_begin|>f", kSize)},
      {"harmony", Repeat("<|channel|>", kSize)},
      {"harmony", "<|channel|>commentary to=f<|message|>" + Repeat(" ", kSize)},
      {"harmony", "<|channel|>final<|message|>" + Repeat(" ", kSize)},
  };
  for (const auto& [name, output] : cases) {
    const auto format = Shared(name);
    for (const CallMode mode : {CallMode::kWhole, CallMode::kStreamed}) {
      OutputStream stream(format, {.calls = mode});
      size_t settled = 0;
      const double seconds = Seconds([&] {
        for (const char& c : output) {
          stream.Push(std::string_view(&c, 1));
          settled += stream.settled_bytes() > 0;
        }
        stream.Finish();
      });
      EXPECT_LT(seconds, 1.0) << name << ": " << output.substr(0, 60);
    }
  }
}

TEST(HostileOutputs, OfRandomBytesNeverCrash) {
  std::mt19937 random(9);
  for (const auto& format : All()) {
    const std::vector<std::string> pieces = Pieces(format->row());
    for (int trial = 0; trial < 300; ++trial) {
      std::string output(random() % 120, '\0');
      for (char& c : output) c = static_cast<char>(random());
      for (int k = random() % 6; k > 0; --k) {
        output.insert(random() % (output.size() + 1), pieces[random() % pieces.size()]);
      }
      for (const CallMode mode : kModes) format->Parse(output, {.tools = Tools(), .calls = mode});
      EXPECT_LE(format->SettledPrefix(output), output.size());
    }
  }
}

}  // namespace
}  // namespace ingot::text
