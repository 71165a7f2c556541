#include "dataset/sft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::dataset {
namespace {

using testing::HasSubstr;

std::shared_ptr<const text::Tokenizer> Bytes() { return text::MakeByteTokenizer({"<|im_start|>", "<|im_end|>"}); }

SftConversation FromJson(const std::string& json, const std::string& place = "c.jsonl:1") {
  SftConversation made;
  made.conversation = *text::ConversationFromJson(*base::ParseJson(json));
  made.place = place;
  return made;
}

TEST(SftTest, EachAssistantTurnIsLearntOnceInItsContext) {
  const auto tokenizer = Bytes();
  const auto format = *text::MakeChatFormat("compact", tokenizer);
  const std::vector<SftConversation> conversations = {
      FromJson(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                   {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"},
                   {"role": "user", "content": "e"}]})"),
      FromJson(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "z"}]})")};
  const auto examples = MakeSftExamples(conversations, *format);
  ASSERT_TRUE(examples.ok()) << examples.status();
  ASSERT_EQ(examples->size(), 3u);
  const auto text = [&](const tree::CallPath& call, bool sampled) {
    return tokenizer->Decode(sampled ? call.sampled : call.context.Tokens(), false);
  };
  EXPECT_EQ(text((*examples)[0], false), "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(text((*examples)[0], true), "b<|im_end|>");
  EXPECT_EQ(text((*examples)[1], false),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(text((*examples)[1], true), "d<|im_end|>");
  EXPECT_EQ((*examples)[1].episode, 0);
  EXPECT_EQ((*examples)[2].episode, 1);
  EXPECT_EQ((*examples)[2].group, 1);
  EXPECT_EQ((*examples)[1].call_id, "c.jsonl:1, message 3");

  // They pack as recorded calls do: the turns of a conversation are one chain, and equal prefixes are shared.
  std::vector<int32_t> all(examples->size());
  std::iota(all.begin(), all.end(), 0);
  const auto forest = tree::PackForest(*examples, all);
  ASSERT_TRUE(forest.ok()) << forest.status();
  EXPECT_EQ(forest->size(), static_cast<size_t>((*examples)[1].size()) + 2);
  EXPECT_EQ(forest->entries.size(), 6u);
}

TEST(SftTest, ReasoningIsLearntByTheTurnThatWroteIt) {
  const auto tokenizer = Bytes();
  const auto format = *text::MakeChatFormat("compact", tokenizer);
  const std::vector<SftConversation> conversations = {FromJson(R"({"messages": [{"role": "user", "content": "a"},
                   {"role": "assistant", "content": "b", "reasoning_content": "r"}, {"role": "user", "content": "c"},
                   {"role": "assistant", "content": "d", "reasoning_content": "s"}]})")};
  const auto examples = *MakeSftExamples(conversations, *format);
  EXPECT_EQ(tokenizer->Decode(examples[0].sampled, false), "<think>r</think>b<|im_end|>");
  EXPECT_EQ(tokenizer->Decode(examples[1].Tokens(), false),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\n<think>s</think>d<|im_end|>");
}

TEST(SftTest, AMessageOfWeight0IsContextAlone) {
  const auto tokenizer = Bytes();
  const auto format = *text::MakeChatFormat("compact", tokenizer);
  const std::vector<SftConversation> conversations = {FromJson(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bad", "weight": 0},
          {"role": "user", "content": "c"}, {"role": "assistant", "content": "good", "weight": 1},
          {"role": "user", "content": "d"}, {"role": "assistant", "content": "last"}]})")};
  const auto examples = *MakeSftExamples(conversations, *format);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(tokenizer->Decode(examples[0].Tokens(), false),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nbad<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
            "<|im_start|>assistant\ngood<|im_end|>");
  EXPECT_EQ(tokenizer->Decode(examples[1].sampled, false), "last<|im_end|>");
}

// The tokens of the contexts in memory; a shared run counts once.
int64_t Held(const std::vector<tree::CallPath>& examples) {
  std::set<const void*> seen;
  int64_t held = 0;
  for (const tree::CallPath& call : examples) {
    call.context.VisitBack([&](const void* key, const tree::TokenRun& run) {
      if (!seen.insert(key).second) return false;
      held += std::ssize(run.ids);
      return true;
    });
  }
  return held;
}

TEST(SftTest, TurnsOfOneConversationHoldItsTokensOnce) {
  const auto format = *text::MakeChatFormat("compact", Bytes());
  std::string messages = R"({"role": "user", "content": "a"})";
  for (int turn = 0; turn < 200; ++turn) {
    messages +=
        R"(,{"role": "assistant", "content": "b", "reasoning_content": "thought"},{"role": "tool", "content": "c"})";
  }
  messages += R"(,{"role": "user", "content": "d"},{"role": "assistant", "content": "e"})";
  const std::vector<SftConversation> conversations = {FromJson("{\"messages\": [" + messages + "]}")};
  const auto examples = *MakeSftExamples(conversations, *format);
  ASSERT_EQ(examples.size(), 201u);
  // With the thoughts for the turns that saw them, and without them for the last turn.
  EXPECT_LT(Held(examples), examples[199].size() + examples[200].size() + 1);
}

TEST(SftTest, ContextsAreThePromptsOfRequestsWithTheSameVariables) {
  const auto tokenizer = Bytes();
  const auto chat_template =
      text::ChatTemplate::Make(
          "{{ '<|im_start|>system\\nstyle ' ~ style ~ '<|im_end|>\\n' }}"
          "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}"
          "{% endfor %}{{ '<|im_start|>assistant\\n' if add_generation_prompt }}",
          R"({"eos_token": "<|im_end|>"})", "")
          .value();
  const auto encoder = std::make_shared<const text::MarkedEncoder>(tokenizer, chat_template->source());
  const auto format = text::MakeTemplateFormat(chat_template, encoder, *text::FindOutputFormat("plain")).value();
  const std::string talk = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  SftOptions options;
  options.template_variables["style"] = "brief";
  const auto examples =
      MakeSftExamples(std::vector<SftConversation>{FromJson(talk + "}"),
                                                   FromJson(talk + R"(, "chat_template_kwargs": {"style": "long"}})")},
                      *format, options);
  ASSERT_TRUE(examples.ok()) << examples.status();
  ASSERT_EQ(examples->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    text::Conversation request = FromJson(R"({"messages": [{"role": "user", "content": "a"}]})").conversation;
    request.template_variables["style"] = i == 0 ? "brief" : "long";  // a line's own wins
    const auto prompt = format->Render(request, true);
    ASSERT_TRUE(prompt.ok()) << prompt.status();
    EXPECT_EQ((*examples)[i].context.Tokens(), prompt->ids) << i;
    EXPECT_EQ(tokenizer->Decode((*examples)[i].sampled, false), "b<|im_end|>");
  }
}

TEST(SftTest, ErrorsNameTheConversation) {
  const auto format = *text::MakeChatFormat("compact", Bytes());
  const auto good = FromJson(R"({"messages": [{"role": "assistant", "content": "b"}]})");
  const auto mute = FromJson(R"({"messages": [{"role": "user", "content": "b"}]})", "c.jsonl:7");
  const auto error = [&](std::vector<SftConversation> conversations, SftOptions options) {
    const auto examples = MakeSftExamples(conversations, *format, options);
    EXPECT_EQ(examples.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(examples.status().message());
  };
  EXPECT_THAT(error({good, mute}, {}), HasSubstr("c.jsonl:7: it has no assistant"));
  const auto weightless = FromJson(R"({"messages": [{"role": "assistant", "content": "b", "weight": 0}]})");
  EXPECT_THAT(error({weightless}, {}), HasSubstr("c.jsonl:1: it has no assistant"));
  // <|im_start|> assistant \n b <|im_end|> is 1 + 9 + 1 + 1 + 1 tokens.
  EXPECT_THAT(error({good}, {12}), HasSubstr("c.jsonl:1, message 0 ends after 13 tokens"));
  EXPECT_TRUE(MakeSftExamples(std::vector{good}, *format, {13}).ok());
  EXPECT_THAT(error({good}, {-1}), HasSubstr("max_tokens"));
}

}  // namespace
}  // namespace ingot::dataset
