// Answers that a client sends back with its own text behind them, or with other line ends: they are continued on the
// sampled ids, and the client's text begins the tail.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "gateway/fakes.h"
#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::gateway::grown_answers_test {
namespace {

using base::json::array;
using base::json::object;

constexpr const char* kDialects[] = {"chat.completions", "messages", "responses"};

std::vector<int32_t> Vec(const google::protobuf::RepeatedField<int32_t>& ids) { return {ids.begin(), ids.end()}; }

// ChatML as a template: with contents as they are, or without the white space around them.
std::shared_ptr<const text::ChatFormat> TemplateFormat(bool trims) {
  const std::string content = trims ? "m.content | trim" : "m.content";
  auto chat_template = text::ChatTemplate::Make(
      "{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ (" + content +
          ") ~ '<|im_end|>\n' }}{% endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
      R"({"eos_token": "<|im_end|>"})", "");
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  const auto encoder = std::make_shared<const text::MarkedEncoder>(TestTokenizer(), (*chat_template)->source());
  return text::MakeTemplateFormat(*chat_template, encoder, *text::FindOutputFormat("hermes")).value();
}

// A first answer, and the form in which it comes back.
struct Grown {
  const char* sampled;
  const char* stop;       // of the request
  bool stopped;           // by it; or by the end of the turn
  const char* sent;       // by the client, behind the answer
  const char* following;  // the part of it that is encoded behind the sampled ids
};
constexpr Grown kGrown[] = {
    // Text agents.
    {"I add.\nAction: 1+2\nObservation:", "Observation:", true, "I add.\nAction: 1+2\nObservation: 3", " 3"},
    {"I add.\nAction: 1+2\nObservation:", "Observation:", true, "I add.\nAction: 1+2\nObservation: 3\nThought: so",
     " 3\nThought: so"},
    {"\nI add.\n\nObservation:", "\nObservation:", true, "I add.\nObservation: 3", " 3"},
    {"I add.\n\n", "\n\n", true, "I add.\n\nThat is 3.", "That is 3."},
    // smolagents' CodeAgent completes the closing tag, whatever ended the answer.
    {"x = 1\n</code>", "</code>", true, "x = 1\n</code>", ""},
    {"x = 1\n</code>", "</code>", true, "x = 1</code>", ""},
    {"x = 1\n", "</code>", false, "x = 1\n</code>", "</code>"},
    {"x = 1", "</code>", false, "x = 1</code> and more", "</code> and more"},
    // Stored with other line ends.
    {"I add.\nAction: 1+2\nObservation:", "Observation:", true, "I add.\r\nAction: 1+2\r\nObservation: 3", " 3"},
    {"I add.\n\nAction: 1+2", "Observation:", false, "I add.\r\n\r\nAction: 1+2", nullptr},
};

// What the second prompt has behind the sampled ids, and what the client said then.
struct Prompted {
  std::string tail;
  v1::Call call;
};

Prompted PromptAfter(World& world, const std::string& dialect, const Grown& one, bool stream, bool restarts) {
  const auto episode = world.Open();
  const std::string field = dialect == "responses" ? "input" : "messages";
  object body{{field, array{Msg("user", "1+2?")}}, {"stop", array{"never", one.stop}}, {"stream", stream}};
  if (dialect == "messages") body["max_tokens"] = 99;
  const auto ask = [&] {
    const auto outcome = world.Ask(dialect, episode.api_key(), base::PrintJson(body));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  };
  ask();
  array& sent = body[field].as_array();
  sent.push_back(Msg("assistant", one.sent));
  sent.push_back(Msg("user", "go on"));
  EXPECT_TRUE(!restarts || world.Restart().ok());
  ask();
  const auto requests = world.engine->requests();
  const auto calls = world.pool.calls();
  const v1::Call first = calls.at(calls.size() - 2), second = calls.back();
  EXPECT_EQ(second.parent_call_id(), first.call_id()) << second.fork_cause();
  EXPECT_EQ(second.fork_cause(), "");
  const std::vector<int32_t> prompt = Vec(requests.back().prompt_ids());
  EXPECT_EQ(world.pool.PromptOf(second), prompt);
  // The sampled ids stand behind the first prompt; without the end of the turn, if the client's text follows them.
  std::vector<int32_t> expected = world.pool.PromptOf(first);
  std::vector<int32_t> sampled = Vec(world.pool.segment(first.sampled_keys(0)).token_ids());
  if (!one.stopped && one.following != nullptr) sampled.pop_back();
  expected.insert(expected.end(), sampled.begin(), sampled.end());
  if (prompt.size() < expected.size() || !std::equal(expected.begin(), expected.end(), prompt.begin())) {
    ADD_FAILURE() << "other ids: " << TestTokenizer()->Decode(prompt, false);
    return {};
  }
  Prompted prompted{TestTokenizer()->Decode(std::span(prompt).subspan(expected.size()), false), second};
  // And the next turn goes on from there.
  sent.push_back(Msg("assistant", "Done."));
  sent.push_back(Msg("user", "thanks"));
  ask();
  EXPECT_EQ(world.pool.calls().back().parent_call_id(), second.call_id()) << world.pool.calls().back().fork_cause();
  EXPECT_EQ(world.pool.PromptOf(world.pool.calls().back()), Vec(world.engine->requests().back().prompt_ids()));
  return prompted;
}

TEST(GrownAnswers, ContinueOnTheSampledIds) {
  for (const auto& format : {TestFormat(), TemplateFormat(false), TemplateFormat(true)}) {
    for (const auto thinking : {HistoryThinking::kTemplate, HistoryThinking::kKeep}) {
      for (const Grown& one : kGrown) {
        auto calls = std::make_shared<std::atomic<int>>(0);
        World world([=](const auto&) {
          Script script;
          const bool first = (*calls)++ % 3 == 0;
          script.text = first ? one.sampled : "Done.";
          script.end_of_turn = !first || !one.stopped;
          if (first && one.stopped) script.stop_string = one.stop;
          return script;
        });
        world.format = format;
        world.options.history_thinking = thinking;
        const std::string turn = "<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n";
        for (const char* dialect : kDialects) {
          for (const bool stream : {false, true}) {
            for (const bool restarts : {false, true}) {
              const Prompted prompted = PromptAfter(world, dialect, one, stream, restarts);
              const bool closed = one.following == nullptr;
              EXPECT_EQ(prompted.tail, (closed ? "\n" : std::string(one.following) + "<|im_end|>\n") + turn)
                  << dialect << stream << restarts << one.sent;
            }
          }
        }
      }
    }
  }
}

// The answer's text is the client's too where it asked for the stop string.
TEST(GrownAnswers, ContinueAfterAStopStringThatWasEmitted) {
  World world([](const v1::GenerateRequest& request) {
    Script script;
    script.text = request.prompt_ids_size() < 80 ? "Action: 1+2\nObservation:" : "Done.";
    script.end_of_turn = request.prompt_ids_size() >= 80;
    if (!script.end_of_turn) script.stop_string = "Observation:";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "1+2?")});
  body["stop"] = "Observation:";
  body["include_stop_str_in_output"] = true;
  const auto first = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_EQ(first.message().at("content"), "Action: 1+2\nObservation:");
  array& messages = body["messages"].as_array();
  messages.push_back(Msg("assistant", "Action: 1+2\nObservation: 3"));
  messages.push_back(Msg("user", "go on"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id()) << calls[1].fork_cause();
  const std::string prompt = TestTokenizer()->Decode(Vec(world.engine->requests()[1].prompt_ids()), false);
  EXPECT_NE(prompt.find("Observation: 3<|im_end|>\n<|im_start|>user\ngo on"), std::string::npos) << prompt;
}

TEST(GrownAnswers, AnotherTextAfterAnAnswerBeginsABranch) {
  World world([](const auto&) {
    Script script;
    script.text = "x = 1\n</code>";
    script.end_of_turn = false;
    script.stop_string = "</code>";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "go")});
  body["stop"] = "</code>";
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  for (const char* sent : {"x = 1\nprint(x)</code>", "x = 12</code>", "y</code>", "x = 1\n</cod"}) {
    body["messages"] = array{Msg("user", "go"), Msg("assistant", sent), Msg("user", "go on")};
    ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    EXPECT_EQ(world.pool.calls().back().parent_call_id(), "") << sent;
    EXPECT_EQ(world.pool.calls().back().fork_cause(), kForkNotFound) << sent;
  }
}

// A client that stores text on Windows: in answers, thoughts and arguments, and in a part of a stream that it kept.
TEST(LineEnds, OfTheClientsDoNotMatter) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  World world([calls](const auto&) {
    Script script;
    script.text = (*calls)++ > 0 ? "Done."
                                 : "<think>\nfirst\nsecond\n</think>\n\nOne\n\ntwo.\n<tool_call>\n{\"name\": \"add\", "
                                   "\"arguments\": {\"a\": \"x\\ny\", \"b\": \"\\\\r\\n\"}}\n</tool_call>";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "go")});
  body["tools"] = CalculatorTools();
  const auto first = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(first.status.ok()) << first.status;
  object answer = first.message().as_object();
  ASSERT_EQ(answer.at("reasoning_content"), "first\nsecond");
  answer["content"] = "One\r\n\r\ntwo.";
  answer["reasoning_content"] = "first\r\nsecond";
  answer["tool_calls"].at(0).at("function").at("arguments") = "{\"a\": \"x\\r\\ny\", \"b\": \"\\\\r\\r\\n\"}";
  body["messages"].as_array().push_back(answer);
  body["messages"].as_array().push_back(Msg("tool", "3"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(world.pool.calls().back().parent_call_id(), world.pool.calls().front().call_id())
      << world.pool.calls().back().fork_cause();
  const std::string prompt = TestTokenizer()->Decode(Vec(world.engine->requests().back().prompt_ids()), false);
  EXPECT_EQ(prompt.find('\r'), std::string::npos) << "as the model wrote it";
}

TEST(LineEnds, OfAKeptPrefixDoNotMatter) {
  World world([](const auto&) {
    Script script;
    script.text = "One\ntwo\nthree\nfour";
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "go")});
  body["stream"] = true;
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  body["messages"].as_array().push_back(Msg("assistant", "One\r\ntwo\r\nthr"));
  body["messages"].as_array().push_back(Msg("user", "go on"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(world.pool.calls()[1].parent_call_id(), world.pool.calls()[0].call_id())
      << world.pool.calls()[1].fork_cause();
}

}  // namespace
}  // namespace ingot::gateway::grown_answers_test
