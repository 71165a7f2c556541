// Hostile outputs: parsing takes linear time however they arrive, and never crashes.
#include <gtest/gtest.h>

#include "cpu_time.h"
#include "text/output/output_samples.h"
#include "text/output/output_stream.h"

namespace ingot::text {
namespace {

std::string Repeat(const std::string& text, size_t size) {
  std::string out;
  while (out.size() < size) out += text;
  return out;
}

TEST(HostileOutputs, TakeLinearTime) {
  int count = 0;  // every sixteenth case is large
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
        const std::string output =
            (prefixed ? prefix : "") + Repeat(repeated[i], count++ % 16 == 0 ? 1 << 20 : 1 << 16);
        const double seconds =
            CpuSeconds([&] { format->Parse(output, {.tools = Tools(), .calls = kModes[1 + i % 2]}); });
        if (seconds > slowest) {
          slowest = seconds;
          slowest_name = format->name() + ": " + repeated[i];
        }
      }
    }
  }
  EXPECT_LT(slowest, 1.0 * kSlowdown) << slowest_name;
  RecordProperty("slowest", slowest_name);
}

TEST(HostileOutputs, TakeLinearTimeByteByByte) {
  constexpr size_t kSize = 1 << 17;
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
      const double seconds = CpuSeconds([&] {
        for (const char& c : output) {
          stream.Push(std::string_view(&c, 1));
          settled += stream.settled_bytes() > 0;
        }
        stream.Finish();
      });
      EXPECT_LT(seconds, 1.0 * kSlowdown) << name << ": " << output.substr(0, 60);
    }
  }
}

TEST(HostileOutputs, RandomBytesNeverCrash) {
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
    }
  }
}

}  // namespace
}  // namespace ingot::text
