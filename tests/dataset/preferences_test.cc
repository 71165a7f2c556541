#include "dataset/preferences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace ingot::dataset {
namespace {

using testing::HasSubstr;

// LoadPreferences of a file with this text.
absl::StatusOr<std::vector<PreferencePair>> Load(const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/preferences_", ::getpid(), ".jsonl");
  std::ofstream(path) << text;
  auto pairs = LoadPreferences(path);
  std::remove(path.c_str());
  return pairs;
}

constexpr char kPair[] =
    R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"}], "chosen": [{"role": "assistant", "content": "good"}],
        "rejected": {"role": "assistant", "content": "bad"}})";

std::string OneLine(std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  return text + "\n";
}

TEST(Preferences, OnlyMessagesAfterThePromptAreExamples) {
  const auto tokenizer = text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>"});
  const auto format = *text::MakeChatFormat("compact", tokenizer);
  const auto pairs = Load(OneLine(kPair) + OneLine(kPair));
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  const auto examples = MakePreferenceExamples(*pairs, *format);
  ASSERT_TRUE(examples.ok()) << examples.status();
  ASSERT_EQ(examples->size(), 4u);  // the prompt's own assistant turn is in none
  const auto sampled = [&](const tree::CallPath& call) { return tokenizer->Decode(call.sampled, false); };
  EXPECT_EQ(sampled((*examples)[0]), "good<|im_end|>");
  EXPECT_EQ(sampled((*examples)[1]), "bad<|im_end|>");
  for (int32_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*examples)[static_cast<size_t>(i)].episode, i);
    EXPECT_EQ((*examples)[static_cast<size_t>(i)].group, i / 2);
  }
  EXPECT_THAT((*examples)[3].call_id, testing::EndsWith(".jsonl:2, rejected, message 3"));
}

TEST(Preferences, PairsWithEqualSidesAreCounted) {
  const auto line = [](const std::string& chosen, const std::string& rejected) {
    return R"({"prompt":[{"role":"user","content":"q"}],"chosen":)" + chosen + R"(,"rejected":)" + rejected + "}\n";
  };
  const std::string yes = R"({"role":"assistant","content":"yes"})", no = R"({"role":"assistant","content":"no"})";
  const std::string parts = R"({"role":"assistant","content":[{"type":"text","text":"yes"}]})";
  const auto pairs = Load(line(yes, no) + line(yes, "[" + yes + "]") + line(parts, yes) + line(no, yes));
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  const auto tokenizer = text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>"});
  const auto examples = MakePreferenceExamples(*pairs, **text::MakeChatFormat("compact", tokenizer));
  ASSERT_TRUE(examples.ok()) << examples.status();
  EXPECT_EQ(CountAlike(*examples), 2);
}

TEST(Preferences, BothSidesHaveToolsAndTemplateVariables) {
  const auto pairs = Load(
      R"({"prompt": {"role": "user", "content": "a"}, "chosen": {"role": "assistant", "content": "b"}, "rejected": {"role": "assistant", "content": "c"}, "tools": [{"type": "function", "function": {"name": "f"}}], "chat_template_kwargs": {"enable_thinking": false}})"
      "\n");
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  for (const text::Conversation& way : {(*pairs)[0].chosen.conversation, (*pairs)[0].rejected.conversation}) {
    EXPECT_EQ(way.tools.size(), 1u);
    EXPECT_EQ(base::PrintJson(way.template_variables), R"({"enable_thinking":false})");
  }
}

TEST(Preferences, FaultsNameFileAndLine) {
  const auto message = [](const std::string& text) {
    const auto pairs = Load(text);
    return pairs.ok() ? "accepted" : std::string(pairs.status().message());
  };
  EXPECT_THAT(message(OneLine(kPair) + "{\"prompt\": [], \"chosen\": []}\n"),
              testing::AllOf(HasSubstr(".jsonl:2"), HasSubstr("'prompt'")));
  EXPECT_THAT(message("{\"prompt\": {\"role\": \"user\", \"content\": \"a\"}, \"chosen\": 3, \"rejected\": []}\n"),
              testing::AllOf(HasSubstr(".jsonl:1"), HasSubstr("'chosen'")));
  EXPECT_THAT(message("{\"prompt\": {\"role\": \"user\", \"content\": \"a\"}, \"chosen\": {\"role\": \"oracle\"}, "
                      "\"rejected\": {\"role\": \"assistant\", \"content\": \"x\"}}\n"),
              testing::AllOf(HasSubstr(".jsonl:1"), HasSubstr("with 'chosen'")));
  EXPECT_THAT(message("{\"prompt\": {\"role\": \"user\", \"content\": \"a\"}, \"chosen\": {\"role\": \"assistant\", "
                      "\"weight\": 3}, \"rejected\": {\"role\": \"assistant\", \"content\": \"x\"}}\n"),
              testing::AllOf(HasSubstr(".jsonl:1"), HasSubstr("with 'chosen': messages[1]: 'weight' is 3")));
  EXPECT_THAT(message(""), HasSubstr("no pair"));
}

TEST(Preferences, APairWithoutAnAnswerIsNamed) {
  const auto format = *text::MakeChatFormat("compact", text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>"}));
  const auto pairs = Load(
      "{\"prompt\": {\"role\": \"user\", \"content\": \"a\"}, \"chosen\": {\"role\": \"user\", \"content\": \"b\"}, "
      "\"rejected\": {\"role\": \"assistant\", \"content\": \"x\"}}\n");
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_THAT(std::string(MakePreferenceExamples(*pairs, *format).status().message()),
              HasSubstr(".jsonl:1, chosen: it has no assistant message"));
}

}  // namespace
}  // namespace ingot::dataset
