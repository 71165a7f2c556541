// Answers that a client began, or of which it asks for more: the model goes on behind the last message's content.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "gateway/fakes.h"
#include "gateway/prompt/history.h"
#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;

std::vector<int32_t> Vec(const google::protobuf::RepeatedField<int32_t>& ids) { return {ids.begin(), ids.end()}; }
std::string TextOf(const std::vector<int32_t>& ids) { return TestTokenizer()->Decode(ids, false); }

// ChatML with thoughts, as a template: a last answer has its thought's marks, and contents may lose space around them.
std::shared_ptr<const text::ChatFormat> TemplateFormat(bool trims) {
  const std::string content = trims ? "m.content | trim" : "m.content";
  auto chat_template = text::ChatTemplate::Make(
      "{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }}{%- if m.role == 'assistant' and loop.last %}"
      "{{ '<think>\n\n</think>\n\n' }}{%- endif %}{{ " +
          content + " ~ '<|im_end|>\n' }}{% endfor %}" +
          "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
      R"({"eos_token": "<|im_end|>"})", "");
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  const auto encoder = std::make_shared<const text::MarkedEncoder>(TestTokenizer(), (*chat_template)->source());
  return text::MakeTemplateFormat(*chat_template, encoder, *text::FindOutputFormat("hermes")).value();
}

// ChatML without thoughts.
std::shared_ptr<const text::ChatFormat> PlainFormat(bool trims) {
  const std::string content = trims ? "m.content | trim" : "m.content";
  auto chat_template = text::ChatTemplate::Make(
      "{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' ~ (" + content +
          ") ~ '<|im_end|>\n' }}{% endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
      R"({"eos_token": "<|im_end|>"})", "");
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  const auto encoder = std::make_shared<const text::MarkedEncoder>(TestTokenizer(), (*chat_template)->source());
  return text::MakeTemplateFormat(*chat_template, encoder, *text::FindOutputFormat("hermes")).value();
}

// What the model says, one script for each call.
World::Outcome AskFor(World& world, const std::string& key, object body, bool begun) {
  if (begun) {
    body["continue_final_message"] = true;
    body["add_generation_prompt"] = false;
  }
  const auto outcome = world.Chat(key, body);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status << base::PrintJson(body);
  return outcome;
}

ScriptedEngine::Author Saying(std::vector<Script> scripts) {
  auto next = std::make_shared<std::atomic<size_t>>(0);
  return [=](const auto&) { return scripts[(*next)++ % scripts.size()]; };
}

Script Says(const std::string& text) {
  Script script;
  script.text = text;
  return script;
}
Script CutOff(const std::string& text) {
  Script script = Says(text);
  script.end_of_turn = false;
  script.finish = v1::FINISH_LENGTH;
  return script;
}
Script StoppedBy(const std::string& text, const std::string& stop) {
  Script script = Says(text);
  script.end_of_turn = false;
  script.stop_string = stop;
  return script;
}

TEST(BegunAnswers, OfTheClientAreGoneOnWith) {
  for (const auto& format : {TestFormat(), PlainFormat(false), PlainFormat(true), TemplateFormat(false)}) {
    for (const bool stream : {false, true}) {
      for (const bool restarts : {false, true}) {
        World world(Saying({Says(" hello."), Says("Bye.")}));
        world.format = format;
        const auto episode = world.Open();
        object body = Body({Msg("user", "greet"), Msg("assistant", "I say")});
        body["stream"] = stream;
        const auto first = AskFor(world, episode.api_key(), body, true);
        if (!stream) {
          EXPECT_EQ(first.message().at("content"), " hello.");
        }
        const std::string prompt = TextOf(Vec(world.engine->requests()[0].prompt_ids()));
        EXPECT_TRUE(prompt.ends_with("I say")) << prompt;
        EXPECT_EQ(prompt.find("<|im_end|>", prompt.find("I say")), std::string::npos) << prompt;
        EXPECT_TRUE(!restarts || world.Restart().ok());
        // The answer comes back as one message, or in the two parts that the client has.
        for (const array& answer :
             {array{Msg("assistant", "I say hello.")}, array{Msg("assistant", "I say"), Msg("assistant", " hello.")}}) {
          array history = {Msg("user", "greet")};
          history.insert(history.end(), answer.begin(), answer.end());
          history.push_back(Msg("user", "and?"));
          body["messages"] = history;
          AskFor(world, episode.api_key(), body, false);
          const auto calls = world.pool.calls();
          // A template that adds a thought to the last answer alone writes that answer otherwise now.
          if (format->fingerprint() == TemplateFormat(false)->fingerprint()) continue;
          EXPECT_EQ(calls.back().parent_call_id(), calls[0].call_id()) << calls.back().fork_cause();
          const std::string next = TextOf(Vec(world.engine->requests().back().prompt_ids()));
          EXPECT_EQ(next, prompt + " hello.<|im_end|>\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n");
        }
      }
    }
  }
}

// Of an answer that was recorded, the model goes on behind the sampled ids: those of the text alone.
TEST(BegunAnswers, ThatWereRecordedContinueOnTheSampledIds) {
  struct Recorded {
    Script script;
    const char* said;     // the sampled text of the delivered message
    const char* content;  // the message that is to be gone on with
    bool streamed_only = false;
  };
  const Recorded recorded[] = {
      {CutOff("I say"), "I say", "I say"},
      {CutOff("I say "), "I say ", "I say"},
      {Says("I say."), "I say.", "I say."},
      {StoppedBy("I say\nObservation:", "\nObservation:"), "I say", "I say"},
      {Says("I say hello to you."), "I say hello", "I say hello", true},
  };
  for (const auto& format : {TestFormat(), PlainFormat(false), PlainFormat(true)}) {
    for (const auto thinking : {HistoryThinking::kTemplate, HistoryThinking::kKeep}) {
      for (const Recorded& one : recorded) {
        for (const bool stream : {false, true}) {
          if (one.streamed_only && !stream) continue;
          World world(Saying({one.script, CutOff(" more"), Says(" and more."), Says("Bye.")}));
          world.format = format;
          world.options.history_thinking = thinking;
          const auto episode = world.Open();
          object body = Body({Msg("user", "greet")});
          body["stream"] = stream;
          body["stop"] = "\nObservation:";
          AskFor(world, episode.api_key(), body, false);
          const v1::Call first = world.pool.calls()[0];
          body["messages"].as_array().push_back(Msg("assistant", one.content));
          AskFor(world, episode.api_key(), body, true);
          const v1::Call second = world.pool.calls()[1];
          const std::string said = TextOf(Vec(world.engine->requests()[0].prompt_ids())) + one.said;
          EXPECT_EQ(second.parent_call_id(), first.call_id()) << second.fork_cause() << one.said;
          EXPECT_EQ(second.fork_cause(), "");
          EXPECT_EQ(TextOf(Vec(world.engine->requests()[1].prompt_ids())), said);
          EXPECT_EQ(world.pool.PromptOf(second), Vec(world.engine->requests()[1].prompt_ids()));
          // Once more, of an answer that was itself gone on with.
          body["messages"].at(1) = Msg("assistant", std::string(one.said) + " more");
          AskFor(world, episode.api_key(), body, true);
          EXPECT_EQ(world.pool.calls()[2].parent_call_id(), second.call_id()) << world.pool.calls()[2].fork_cause();
          EXPECT_EQ(TextOf(Vec(world.engine->requests()[2].prompt_ids())), said + " more");
          body["messages"].at(1) = Msg("assistant", std::string(one.said) + " more and more.");
          body["messages"].as_array().push_back(Msg("user", "and?"));
          AskFor(world, episode.api_key(), body, false);
          EXPECT_EQ(world.pool.calls()[3].parent_call_id(), world.pool.calls()[2].call_id())
              << world.pool.calls()[3].fork_cause();
          EXPECT_EQ(TextOf(Vec(world.engine->requests()[3].prompt_ids())),
                    said + " more and more.<|im_end|>\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n");
          EXPECT_EQ(world.pool.PromptOf(world.pool.calls()[3]), Vec(world.engine->requests()[3].prompt_ids()));
        }
      }
    }
  }
}

// The client keeps a part of a stream that goes on with a begun answer.
TEST(BegunAnswers, AreKeptInPart) {
  World world(Saying({Says(" hello to you."), Says("Bye.")}));
  const auto episode = world.Open();
  object body = Body({Msg("user", "greet"), Msg("assistant", "I say")});
  body["stream"] = true;
  AskFor(world, episode.api_key(), body, true);
  body["messages"] = array{Msg("user", "greet"), Msg("assistant", "I say hello"), Msg("user", "and?")};
  AskFor(world, episode.api_key(), body, false);
  EXPECT_EQ(world.pool.calls()[1].parent_call_id(), world.pool.calls()[0].call_id())
      << world.pool.calls()[1].fork_cause();
  EXPECT_EQ(TextOf(Vec(world.engine->requests()[1].prompt_ids())),
            TextOf(Vec(world.engine->requests()[0].prompt_ids())) +
                " hello<|im_end|>\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n");
}

// Marks of calls in the client's text are text; marks that the model writes behind it are a call.
TEST(BegunAnswers, MayEndInACall) {
  for (const auto& format : {TestFormat(), TemplateFormat(false), TemplateFormat(true)}) {
    World world(Saying({Says(" I add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>")}));
    world.format = format;
    object body = Body({Msg("user", "1+2?"), Msg("assistant", "<tool_call> <think> is a mark.")});
    body["tools"] = CalculatorTools();
    const auto outcome = AskFor(world, world.Open().api_key(), body, true);
    EXPECT_EQ(outcome.message().at("content"), " I add.");
    EXPECT_EQ(base::Find(outcome.message(), "reasoning_content"), nullptr);
    EXPECT_EQ(outcome.message().at("tool_calls").at(0).at("function").at("arguments"), "{\"a\": 1}");
  }
}

// Messages and Google's API go on with a last turn of the assistant without being asked.
TEST(BegunAnswers, OfOtherDialectsEndTheConversation) {
  const struct {
    const char* dialect;
    const char* body;
  } cases[] = {{"messages", R"({"max_tokens":9,"messages":[{"role":"user","content":"q"},
                                {"role":"assistant","content":"I say"}]})"},
               {"google.generateContent", R"({"contents":[{"parts":[{"text":"q"}]},
                                {"role":"model","parts":[{"text":"I say"}]}]})"},
               {"responses", R"({"input":[{"role":"user","content":"q"},{"role":"assistant","content":"I say"}],
                                "continue_final_message":true,"add_generation_prompt":false})"}};
  for (const auto& [dialect, body] : cases) {
    World world(Saying({Says(" hello.")}));
    const auto outcome = world.Ask(dialect, world.Open().api_key(), body);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status << dialect;
    EXPECT_TRUE(TextOf(Vec(world.engine->requests()[0].prompt_ids())).ends_with("assistant\nI say")) << dialect;
    EXPECT_NE(base::PrintJson(outcome.events[0]).find("\" hello.\""), std::string::npos) << dialect;
  }
}

}  // namespace
}  // namespace ingot::gateway
