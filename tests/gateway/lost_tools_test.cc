// Tools that a chat format does not carry.
#include "gateway/lost_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/fakes.h"
#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kMessagesAlone[] = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}";
constexpr char kWithTools[] =
    "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}";

std::shared_ptr<const text::ChatFormat> Format(const std::string& chat_template, const std::string& output) {
  const auto made = text::ChatTemplate::Make(chat_template, R"({"eos_token": "<|im_end|>"})", "").value();
  const auto encoder = std::make_shared<const text::MarkedEncoder>(TestTokenizer(), made->source());
  return text::MakeTemplateFormat(made, encoder, text::FindOutputFormat(output).value()).value();
}

TEST(LostTools, AreThoseThatTheTemplateDoesNotWriteOrTheOutputFormatDoesNotRead) {
  EXPECT_EQ(WhyToolsAreLost(*Format(kWithTools, "hermes")), "");
  EXPECT_EQ(WhyToolsAreLost(*TestFormat()), "") << "a built-in format";
  EXPECT_THAT(WhyToolsAreLost(*Format(kWithTools, "plain")),
              AllOf(HasSubstr("'plain' has no tool calls"), Not(HasSubstr("template"))));
  EXPECT_EQ(WhyToolsAreLost(*Format(kMessagesAlone, "hermes")),
            "the chat template does not write tools into the prompt");
  EXPECT_THAT(WhyToolsAreLost(*Format(kMessagesAlone, "plain")),
              AllOf(HasSubstr("does not write tools"), HasSubstr("'plain' has no tool calls")));
  EXPECT_EQ(WhyToolsAreLost(*Format("{{ raise_exception('no') if tools }}x<|im_end|>", "hermes")), "")
      << "a refusal is no silent loss";
}

TEST(LostTools, AreCountedAndTheirCallsAreAnswered) {
  World world([](const auto&) {
    Script script;
    script.text = "text";
    return script;
  });
  world.format = Format(kMessagesAlone, "plain");
  const auto episode = world.Open();
  const auto lost = [&] {
    const std::string metrics = world.gateway().MetricsText();
    const std::string name = "\ningot_gateway_lost_tools_total ";
    return std::stoi(metrics.substr(metrics.find(name) + name.size()));
  };
  base::json::object body = Body({Msg("user", "1+2?")});
  EXPECT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(lost(), 0) << "a call without tools";
  body["tools"] = CalculatorTools();
  body["tool_choice"] = "none";
  EXPECT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(lost(), 0) << "a call that may use no tool";
  body["tool_choice"] = "auto";
  for (const int calls : {1, 2}) {
    const auto answered = world.Chat(episode.api_key(), body);
    ASSERT_TRUE(answered.status.ok()) << answered.status;
    EXPECT_EQ(answered.message().at("content").as_string(), "text");
    EXPECT_EQ(lost(), calls);
  }
  body["tool_choice"] = "required";
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), body).status), 400);
  EXPECT_EQ(lost(), 2) << "a refused call loses nothing silently";
}

}  // namespace
}  // namespace ingot::gateway
