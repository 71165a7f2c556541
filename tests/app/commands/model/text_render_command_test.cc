#include "app/commands/model/text_render_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "text/tokenizer/tokenizer.h"

namespace ingot::app {
namespace {

using testing::HasSubstr;

class TextRenderTest : public testing::Test {
 protected:
  TextRenderTest() : dir_(std::filesystem::path(testing::TempDir()) / ("render_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(dir_);
    Write("tokenizer.json", text::ByteTokenizerJson({"<s>", "</s>"}));
    Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    Write("chat_template.jinja",
          "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}{{ m.thinking }};{% endfor %}"
          "{{ tools | length if tools is not none }}{{ mood }}{{ '>' if add_generation_prompt }}{{ eos_token }}");
  }
  ~TextRenderTest() override { std::filesystem::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }
  std::string Line(const std::string& input, bool like_transformers = false) {
    const auto render = MakeTextRender(dir_, like_transformers);
    if (!render.ok()) return std::string(render.status().message());
    const auto result = (*render)(*base::ParseJson(input));
    return result.ok() ? base::PrintJson(*result) : std::string(result.status().message());
  }
  const std::filesystem::path dir_;
};

TEST_F(TextRenderTest, GivesTextAndIds) {
  EXPECT_EQ(Line(R"({"messages": [{"role": "user", "content": "a"}]})"),
            R"({"text":"<s>user:a;</s>","ids":[256,117,115,101,114,58,97,59,257]})");
  EXPECT_THAT(
      Line(
          R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}], "mood": "!", "add_generation_prompt": true})"),
      HasSubstr(R"("text":"<s>user:a;1!></s>")"));
}

TEST_F(TextRenderTest, SpecialTokensInMessagesAreText) {
  EXPECT_EQ(Line(R"({"messages": [{"role": "user", "content": "<s>"}]})"),
            R"({"text":"<s>user:<s>;</s>","ids":[256,117,115,101,114,58,60,115,62,59,257]})");
}

TEST_F(TextRenderTest, MessagesReachTheTemplateUnchangedByDefault) {
  const std::string input = R"({"messages": [{"role": "assistant", "content": null, "reasoning_content": "r"}]})";
  EXPECT_THAT(Line(input), HasSubstr("assistant:None;"));
  EXPECT_THAT(Line(input, true), HasSubstr("assistant:r;"));
}

TEST_F(TextRenderTest, MalformedInputIsRejected) {
  EXPECT_THAT(Line("[]"), HasSubstr("messages"));
  EXPECT_THAT(Line("{}"), HasSubstr("messages"));
  EXPECT_THAT(Line(R"({"messages": []})"), HasSubstr("at least one"));
  EXPECT_THAT(Line(R"({"messages": [{"role": "user"}, 3]})"), HasSubstr("messages[1]"));
  for (const char* odd :
       {R"({"messages": {"role": "user"}})", R"({"messages": "x"})", R"({"messages": null})", "3", "null"}) {
    EXPECT_THAT(Line(odd), HasSubstr("messages")) << odd;
  }
  // Odd fields are the template's matter: it fails, or renders a text.
  Write("chat_template.jinja",
        "{% for m in messages %}{{ m.content + '' }}{% for c in m.tool_calls %}x{% endfor %}{% endfor %}");
  for (const char* odd :
       {R"({"messages": [{"role": 3}]})", R"({"messages": [{"content": null}]})",
        R"({"messages": [{"content": [{"type": "text"}]}]})", R"({"messages": [{"content": "a", "tool_calls": 3}]})",
        R"({"messages": [{"content": "a"}], "range": 1, "": 2, "tools": "x", "eos_token": 3, "loop": []})"}) {
    EXPECT_THAT(Line(odd), testing::AnyOf(HasSubstr("chat template, line 1: "), HasSubstr("\"text\":\"a\""))) << odd;
  }
  Write("chat_template.jinja", "{% for i in range(1000000000) %}x{% endfor %}");
  EXPECT_THAT(Line(R"({"messages": [{"role": "user"}]})"), HasSubstr("Range too big"));
  Write("chat_template.jinja", "\n{{ raise_exception('no') }}");
  EXPECT_EQ(Line(R"({"messages": [{"role": "user"}]})"), "chat template, line 2: no");
  std::filesystem::remove(dir_ / "chat_template.jinja");
  EXPECT_THAT(Line("{}"), HasSubstr("there is no chat template"));
}

}  // namespace
}  // namespace ingot::app
