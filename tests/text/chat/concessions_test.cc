// Conversations that a chat template refuses as they are, and the fewest changes with which it takes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "text/chat/fitted_conversation.h"
#include "text/chat/rejecting_templates.h"

namespace ingot::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Conversation FromJson(const std::string& messages, const std::string& tools = "[]") {
  return *ConversationFromJson(*base::ParseJson("{\"messages\": " + messages + ", \"tools\": " + tools + "}"));
}

const RejectingTemplate& Named(const std::string& name) {
  static const auto* const all = new std::vector<RejectingTemplate>(RejectingTemplates());
  return *std::find_if(all->begin(), all->end(), [&](const RejectingTemplate& one) { return one.name == name; });
}

std::vector<std::string> NamesOf(Concessions concessions) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kConcessions; ++i) {
    if (concessions.Has(static_cast<Concession>(i))) names.emplace_back(kConcessionNames[i]);
  }
  return names;
}

struct Text {
  std::string text;
  std::vector<std::string> concessions;
};
Text Rendered(const std::string& name, const Conversation& conversation) {
  const auto prompt = FormatOf(Named(name))->Render(conversation, true);
  if (!prompt.ok()) return {std::string(prompt.status().message()), {"error"}};
  return {TokenizerOf(Named(name))->Decode(prompt->ids, false), NamesOf(prompt->concessions)};
}
void ExpectRendered(const std::string& name, const Conversation& conversation, const std::string& text,
                    const std::vector<std::string>& concessions) {
  const Text rendered = Rendered(name, conversation);
  EXPECT_EQ(rendered.text, text) << name;
  EXPECT_EQ(rendered.concessions, concessions) << name;
}

std::string Turn(const std::string& role, const std::string& text) {
  return "<|im_start|>" + role + "\n" + text + "<|im_end|>\n";
}
const std::string kAnswer = "<|im_start|>assistant\n";

constexpr char kCutCall[] = R"([{"role": "user", "content": "u"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function",
      "function": {"name": "f", "arguments": "{\"x\": \"some lo"}}]},
    {"role": "tool", "tool_call_id": "abcdefghi", "content": "malformed"}])";

TEST(Concessions, UnreadableArgumentsBecomeAnObjectWhereTheTemplateTakesNoText) {
  ExpectRendered(
      "items", FromJson(kCutCall),
      Turn("user", "u") +
          Turn("assistant",
               "\n<tool_call>\n<function=f>\n<parameter=x>\nsome lo\n</parameter>\n</function>\n</tool_call>") +
          Turn("tool", "malformed") + kAnswer,
      {"arguments"});
  EXPECT_THAT(Rendered("methods", FromJson(kCutCall)).concessions, ElementsAre("arguments"));
  // Others print them as text.
  EXPECT_THAT(Rendered("system_once", FromJson(kCutCall)).concessions, ElementsAre());
  EXPECT_THAT(Rendered("system_once", FromJson(kCutCall)).text, HasSubstr("some lo"));
}

constexpr char kTwoCalls[] = R"([{"role": "user", "content": "u"},
    {"role": "assistant", "content": "c", "reasoning_content": "r", "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
      {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "tool_call_id": "2", "content": "two"}])";

TEST(Concessions, EachCallIsAMessageWhereTheTemplateTakesOne) {
  ExpectRendered("one_call", FromJson(kTwoCalls),
                 Turn("user", "u") + Turn("assistant", R"(c{"name": "f", "parameters": {"x": 1}})") +
                     Turn("assistant", R"({"name": "g", "parameters": {}})") + Turn("tool", "one") +
                     Turn("tool", "two") + kAnswer,
                 {"one_call"});
  EXPECT_THAT(Rendered("items", FromJson(kTwoCalls)).concessions, ElementsAre());
}

TEST(Concessions, SystemMessagesAreJoinedAndMovedWhereTheTemplateTakesOneFirst) {
  const Conversation leading = FromJson(R"([{"role": "system", "content": "s1"}, {"role": "system", "content": "s2"},
                                            {"role": "user", "content": "u"}])");
  ExpectRendered("system_first", leading, Turn("system", "s1\n\ns2") + Turn("user", "u") + kAnswer, {"leading_system"});
  ExpectRendered("items", leading, Turn("system", "s1") + Turn("system", "s2") + Turn("user", "u") + kAnswer, {});
  const Conversation late = FromJson(R"([{"role": "system", "content": "s1"}, {"role": "user", "content": "u1"},
      {"role": "assistant", "content": "a1"}, {"role": "system", "content": "s2"}, {"role": "system", "content": "s3"},
      {"role": "user", "content": "u2"}, {"role": "assistant", "content": "a2"}, {"role": "user", "content": "u3"},
      {"role": "system", "content": "s4"}, {"role": "assistant", "content": "a3"}, {"role": "system", "content": "s5"}])");
  ExpectRendered("system_first", late,
                 Turn("system", "s1") + Turn("user", "u1") + Turn("assistant", "a1") + Turn("user", "s2\n\ns3\n\nu2") +
                     Turn("assistant", "a2") + Turn("user", "u3\n\ns4") + Turn("assistant", "a3") + Turn("user", "s5") +
                     kAnswer,
                 {"late_system"});
  EXPECT_THAT(Rendered("items", late).concessions, ElementsAre());
  // A later message changes nothing of the leading ones: the prompt of an earlier call is a prefix of the next one.
  Conversation both = leading;
  for (const char* role : {"assistant", "system", "user"}) {
    both.messages.emplace_back();
    both.messages.back().role = both.messages.back().content = role;
  }
  ExpectRendered("system_first", both,
                 Turn("system", "s1\n\ns2") + Turn("user", "u") + Turn("assistant", "assistant") +
                     Turn("user", "system\n\nuser") + kAnswer,
                 {"leading_system", "late_system"});
  // A template that leaves them out does not take them, either. It may leave out a leading one.
  EXPECT_THAT(Rendered("system_once", leading).text, HasSubstr("s1\n\ns2"));
  EXPECT_THAT(Rendered("system_once", leading).concessions, ElementsAre("leading_system"));
  EXPECT_THAT(Rendered("system_once", late).concessions, ElementsAre("late_system"));
  const Conversation alone = FromJson(R"([{"role": "system", "content": "s1"}, {"role": "user", "content": "u"}])");
  EXPECT_THAT(Rendered("system_once", alone).concessions, ElementsAre());
  ExpectRendered("two_roles", alone, Turn("user", "s1\n\nu") + kAnswer, {"any_system"});
}

TEST(Concessions, TurnsAlternateWhereTheTemplateWantsIt) {
  const Conversation talk = FromJson(R"([{"role": "user", "content": "u1"}, {"role": "user", "content": "u2"},
      {"role": "assistant", "content": "a1"}, {"role": "assistant", "content": "a2"}, {"role": "user", "content": "u3"}])");
  ExpectRendered("alternates", talk,
                 Turn("user", "u1\n\nu2") + Turn("assistant", "a1\n\na2") + Turn("user", "u3") + kAnswer, {"turns"});
  EXPECT_THAT(Rendered("items", talk).concessions, ElementsAre());
  ExpectRendered("alternates",
                 FromJson(R"([{"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}])"),
                 Turn("system", "s") + Turn("user", "") + Turn("assistant", "a") + kAnswer, {"turns"});
  // The result of a call is followed by a question; for the template the question comes at the wrong time.
  Conversation asks = FromJson(kTwoCalls);
  asks.messages.push_back(FromJson(R"([{"role": "user", "content": "and?"}])").messages[0]);
  const Text text = Rendered("alternates", asks);
  EXPECT_THAT(text.concessions, ElementsAre("user_after_result"));
  EXPECT_THAT(text.text, HasSubstr(Turn("tool", "one") + Turn("tool", "two\n\nand?") + kAnswer));
}

TEST(Concessions, ABlankMessageGetsASpaceWhereTheTemplateWantsText) {
  const Conversation talk = FromJson(R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": ""},
                                         {"role": "user", "content": "u"}])");
  ExpectRendered("no_blanks", talk, Turn("user", "u") + Turn("assistant", " ") + Turn("user", "u") + kAnswer,
                 {"blank_content"});
  EXPECT_THAT(Rendered("alternates", talk).concessions, ElementsAre());
}

TEST(Concessions, CallsAreTextWhereTheTemplateKnowsNone) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"some lo\"}}\n</tool_call>";
  ExpectRendered("two_roles", FromJson(kCutCall),
                 Turn("user", "u") + Turn("assistant", call) + Turn("user", "malformed") + kAnswer, {"calls_as_text"});
  const Text two = Rendered("two_roles", FromJson(kTwoCalls));
  EXPECT_THAT(two.concessions, ElementsAre("turns", "calls_as_text"));
  EXPECT_THAT(two.text, HasSubstr(Turn("user", "one\n\ntwo")));
  // Unless its output format has no calls, either.
  const auto plain = FormatOf(Named("two_roles"), "plain")->Render(FromJson(kTwoCalls), true);
  EXPECT_THAT(std::string(plain.status().message()), HasSubstr("roles must alternate"));
}

TEST(Concessions, OptionalFieldsOfToolsAreFilledWhereTheTemplateReadsThem) {
  const std::string bare = R"([{"type": "function", "function": {"name": "f"}},
      {"type": "function", "function": {"name": "g", "description": null, "parameters": {"properties": {
        "x": {"type": "array", "items": {"properties": {"y": {}}}}, "z": {"description": "zz"}}}}}])";
  const Conversation talk = FromJson(R"([{"role": "user", "content": "u"}])", bare);
  ExpectRendered("described", talk, "//  f\n//  g\n" + Turn("user", "u") + kAnswer, {"tool_description"});
  const Text parameters = Rendered("parameters", talk);
  EXPECT_THAT(parameters.concessions, ElementsAre("tool_parameters"));
  EXPECT_THAT(parameters.text, HasSubstr(R"({"type": "object", "properties": {}})"));
  EXPECT_THAT(parameters.text, HasSubstr(R"("items": {"properties": {"y": {"description": ""}}}, "description": "")"));
  EXPECT_THAT(parameters.text, HasSubstr("xzzz"));
  EXPECT_THAT(Rendered("items", talk).concessions, ElementsAre());
}

// ---- Training -----------------------------------------------------------------------------------------------------

std::vector<std::string> LearntTexts(const std::string& name, const Conversation& talk) {
  const auto turns = FormatOf(Named(name))->RenderTurns(talk, 0);
  EXPECT_TRUE(turns.ok()) << turns.status();
  std::vector<std::string> texts;
  std::vector<int32_t> ids;
  for (const RenderedTurn& turn : turns.ok() ? *turns : std::vector<RenderedTurn>()) {
    ids.resize(turn.shared);
    ids.insert(ids.end(), turn.context.begin(), turn.context.end());
    texts.push_back(TokenizerOf(Named(name))->Decode(ids, false) + "|" +
                    TokenizerOf(Named(name))->Decode(turn.sampled, false));
    ids.insert(ids.end(), turn.sampled.begin(), turn.sampled.end());
  }
  return texts;
}

TEST(Concessions, TurnsAreLearntAsTheyAreServed) {
  const std::string asked = Turn("user", "u") + kAnswer;
  const std::string first = R"(c{"name": "f", "parameters": {"x": 1}}<|im_end|>)";
  EXPECT_THAT(LearntTexts("one_call", FromJson(kTwoCalls)),
              ElementsAre(asked + "|" + first,
                          asked + first + "\n" + kAnswer + "|" + R"({"name": "g", "parameters": {}}<|im_end|>)"));
  EXPECT_THAT(
      LearntTexts("system_first", FromJson(R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},
                  {"role": "system", "content": "s"}, {"role": "assistant", "content": "b"}])")),
      ElementsAre(asked + "|a<|im_end|>", asked + "a<|im_end|>\n" + Turn("user", "s") + kAnswer + "|b<|im_end|>"));
  // The second of two messages that the template takes as one: the first is its context.
  EXPECT_THAT(
      LearntTexts("alternates", FromJson(R"([{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"},
                  {"role": "assistant", "content": "b"}])")),
      ElementsAre(asked + "|a<|im_end|>", asked + "a|\n\nb<|im_end|>"));
}

// ---- Laws over templates ------------------------------------------------------------------------------------------

// The templates of these tests, and all *.jinja files in the folder INGOT_TEST_TEMPLATES, if it is set.
std::vector<RejectingTemplate> AllTemplates() {
  std::vector<RejectingTemplate> all = RejectingTemplates();
  const char* folder = std::getenv("INGOT_TEST_TEMPLATES");
  if (folder == nullptr) return all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    all.push_back({entry.path().filename(), text.str(), "hermes"});
  }
  return all;
}

// Any order of messages, with calls that are cut, doubled, or well.
Conversation RandomTalk(std::mt19937& random) {
  const char* const texts[] = {"", "x", "some text", "<|im_end|>", "é\n"};
  const char* const arguments[] = {"{\"x\": 1}", "{", "{\"x\": \"cu", "[1]", "", "{\"x\": oops}}", "nonsense"};
  const char* const roles[] = {"user", "user", "assistant", "assistant", "tool", "system"};
  Conversation talk;
  int id = 0;
  for (int more = 1 + static_cast<int>(random() % 7); more > 0; --more) {
    Message message;
    message.role = roles[random() % std::size(roles)];
    message.content = texts[random() % std::size(texts)];
    for (int calls = message.role == "assistant" ? static_cast<int>(random() % 3) : 0; calls > 0; --calls) {
      message.tool_calls.push_back({"call_" + std::to_string(++id), "f", arguments[random() % std::size(arguments)]});
    }
    if (message.role == "tool") message.tool_call_id = "call_" + std::to_string(id);
    talk.messages.push_back(std::move(message));
  }
  if (random() % 2 == 0) talk.tools.push_back(*base::ParseJson(R"({"type": "function", "function": {"name": "f"}})"));
  return talk;
}

// What the template itself says of the conversation.
absl::StatusOr<std::string> DirectText(const ChatTemplate& chat_template, const Conversation& talk) {
  const auto rendered =
      RenderInput(chat_template, MakeTemplateInput(talk, ProbeDialect(chat_template)), talk.messages.size(), true);
  if (!rendered.ok()) return rendered.status();
  return rendered->text;
}

// A conversation that the template takes is rendered as it is; any other one with concessions, none of which is idle.
TEST(Concessions, AreMadeOnlyWhereTheTemplateRejects) {
  int rejected = 0, hopeless = 0;
  for (const RejectingTemplate& of : AllTemplates()) {
    const auto chat_template = TemplateOf(of);
    const auto format = FormatOf(of);
    std::mt19937 random(3);
    for (int trial = 0; trial < 150; ++trial) {
      const Conversation talk = RandomTalk(random);
      const auto direct = DirectText(*chat_template, talk);
      const auto prompt = format->Render(talk, true);
      hopeless += !prompt.ok();
      if (!prompt.ok()) {
        EXPECT_FALSE(direct.ok()) << of.name;
        continue;
      }
      const std::string text = TokenizerOf(of)->Decode(prompt->ids, false);
      if (prompt->concessions.none()) {
        EXPECT_EQ(text, *direct) << of.name;
        continue;
      }
      ++rejected;
      const FittedConversation fitted = FitConversation(talk, prompt->concessions, *format->output());
      EXPECT_EQ(fitted.changed, prompt->concessions) << of.name;
      EXPECT_EQ(*DirectText(*chat_template, fitted.conversation), text) << of.name;
      const size_t systems = std::count_if(talk.messages.begin(), talk.messages.end(),
                                           [](const Message& message) { return message.role == "system"; });
      EXPECT_TRUE(!direct.ok() || systems > 0)
          << of.name << ": " << testing::PrintToString(NamesOf(prompt->concessions));
    }
  }
  EXPECT_GT(rejected, 300);
  std::printf("%d conversations with concessions, %d that no concession helps\n", rejected, hopeless);
  if (std::getenv("INGOT_TEST_TEMPLATES") == nullptr) {
    EXPECT_EQ(hopeless, 0);
  }
}

// All messages are somewhere, in their order.
TEST(Concessions, LoseNoMessage) {
  std::mt19937 random(4);
  const auto format = FormatOf(Named("items"));
  for (int trial = 0; trial < 3000; ++trial) {
    const Conversation talk = RandomTalk(random);
    Concessions wanted;
    for (size_t i = 0; i < kConcessions; ++i) {
      if (random() % 2 == 0) wanted = wanted.With(static_cast<Concession>(i));
    }
    const FittedConversation fitted = FitConversation(talk, wanted, *format->output());
    ASSERT_EQ(fitted.first.size(), talk.messages.size());
    for (size_t i = 0; i < talk.messages.size(); ++i) {
      ASSERT_LE(fitted.first[i], fitted.last[i]);
      ASSERT_LT(fitted.last[i], fitted.conversation.messages.size());
      if (i > 0) {
        ASSERT_LE(fitted.last[i - 1], fitted.last[i]);
      }
      std::string all;
      size_t calls = 0;
      for (size_t k = fitted.first[i]; k <= fitted.last[i]; ++k) {
        all += fitted.conversation.messages[k].content;
        calls += fitted.conversation.messages[k].tool_calls.size();
      }
      EXPECT_THAT(all, HasSubstr(talk.messages[i].content));
      if (!wanted.Has(Concession::kCallsAsText)) {
        EXPECT_GE(calls, talk.messages[i].tool_calls.size());
      }
    }
    if (wanted.none()) {
      EXPECT_TRUE(fitted.changed.none());
    }
  }
}

}  // namespace
}  // namespace ingot::text
