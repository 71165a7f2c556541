// Requests that come to several calls, or to none; token ids in and out.
#include "gateway/calls/answer.h"

#include <gtest/gtest.h>

#include <thread>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

Script Say(const std::string& text) {
  Script script;
  script.text = text;
  return script;
}

// A worker gives the slots of calls back right after the answer was delivered, a refusal too.
void AwaitNoCalls(World& world) {
  while (world.gateway().Status().active_calls() > 0) std::this_thread::yield();
}

TEST(Answer, MakesARecordedCallOfEachChoice) {
  std::atomic<int> calls{0};
  World world([&](const auto&) { return Say("answer " + std::to_string(calls++)); });
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["n"] = 3;
  const auto whole = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const array& choices = whole.events.at(0).at("choices").as_array();
  ASSERT_EQ(choices.size(), 3u);
  std::set<std::string> contents;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(choices[i].at("index"), i);
    contents.insert(std::string(choices[i].at("message").at("content").as_string()));
  }
  EXPECT_EQ(contents.size(), 3u);
  const int64_t prompt = world.engine->requests()[0].prompt_ids_size();
  EXPECT_EQ(whole.events[0].at("usage").at("prompt_tokens"), prompt);
  EXPECT_EQ(whole.events[0].at("usage").at("completion_tokens"), 3 * 9);
  std::set<uint64_t> seeds;
  std::set<int32_t> sequences;
  for (const v1::Call& call : world.pool.calls()) {
    seeds.insert(call.sampling().seed());
    sequences.insert(call.sequence());
  }
  EXPECT_EQ(seeds.size(), 3u);
  EXPECT_EQ(sequences, (std::set<int32_t>{0, 1, 2}));
  // The one that the agent goes on with is continued.
  body["n"] = 1;
  body["messages"].as_array().push_back(choices[1].at("message"));
  body["messages"].as_array().push_back(Msg("user", "more"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  AwaitNoCalls(world);

  body = Body({Msg("user", "hi")});
  body["n"] = 2;
  body["stream"] = true;
  body["stream_options"] = object{{"include_usage", true}};
  std::map<int64_t, std::string> streamed;
  const auto stream = world.Chat(episode.api_key(), body);
  for (const value& event : stream.events) {
    if (event.at("choices").as_array().empty()) continue;
    const value& choice = event.at("choices").at(0);
    const value* text = base::Find(choice.at("delta"), "content");
    if (text != nullptr) streamed[choice.at("index").as_int64()] += text->as_string();
  }
  EXPECT_EQ(streamed.size(), 2u);
  EXPECT_NE(streamed[0], streamed[1]);
  EXPECT_EQ(stream.events.back().at("usage").at("completion_tokens"), 18);
}

TEST(Answer, FailsAsAWholeAndRecordsTheSampledIds) {
  std::atomic<int> calls{0};
  World world([&](const v1::GenerateRequest& request) {
    Script script = Say("some text");
    const bool fails = calls++ == 0 || request.draft_ids_size() > 0;  // also where it is continued
    script.hold = !fails;
    if (fails) script.error = absl::UnavailableError("gone");
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["n"] = 3;
  const auto outcome = world.Chat(episode.api_key(), body);
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
  EXPECT_TRUE(outcome.events.empty());
  std::multiset<int> finishes;
  for (const v1::Call& call : world.pool.calls()) finishes.insert(call.finish());
  EXPECT_EQ(finishes.count(v1::FINISH_ERROR), 1u);
  EXPECT_EQ(finishes.size() - 1, finishes.count(v1::FINISH_ABORTED));
  AwaitNoCalls(world);
}

TEST(Answer, CountsEveryChoiceAgainstTheLimits) {
  World world([](const auto&) { return Say("ok"); });
  world.options.max_active_calls = 4;
  world.options.max_calls_per_episode = 6;
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["n"] = 5;
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), body).status), 429);
  body["n"] = 4;
  EXPECT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  AwaitNoCalls(world);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), body).status), 400);  // it may make two more, not four
  AwaitNoCalls(world);
  EXPECT_TRUE(world.Reward(episode, 1).ok());
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
}

TEST(Answer, AbortsAllItsCalls) {
  World world([](const auto&) {
    Script script = Say("a long answer");
    script.hold = true;
    return script;
  });
  const auto episode = world.Open();
  object body = Body({Msg("user", "hi")});
  body["n"] = 3;
  auto flag = std::make_shared<Flag>();
  const auto answer = world.StartChat(episode.api_key(), body, [flag] { flag->Set(); });
  world.engine->WaitForHeld(3);
  answer->Abort(absl::CancelledError("gone"));
  while (!answer->TakeOutput().done) flag->WaitAndClear();
  world.engine->WaitForAborted(3);  // the thread that asked the engine may give a request up later than `done`
  ASSERT_EQ(world.pool.calls().size(), 3u);
  for (const v1::Call& call : world.pool.calls()) EXPECT_EQ(call.finish(), v1::FINISH_ABORTED);
}

TEST(Answer, TakesTokenIdsForAPromptAndGivesThemBack) {
  World world([](const auto&) { return Say("ok <tool_call>"); });
  const auto episode = world.Open();
  const std::vector<int32_t> sampled = TestTokenizer()->Encode("ok <tool_call><|im_end|>", true);
  object body{{"prompt_token_ids", array{256, 104, 105}}, {"return_token_ids", true}};
  const auto outcome = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const auto sent = world.engine->requests()[0].prompt_ids();
  EXPECT_EQ(std::vector<int32_t>(sent.begin(), sent.end()), (std::vector<int32_t>{256, 104, 105}));
  EXPECT_EQ(outcome.events[0].at("prompt_token_ids"), value(array{256, 104, 105}));
  EXPECT_EQ(outcome.events[0].at("choices").at(0).at("token_ids"), value(array(sampled.begin(), sampled.end())));
  const auto calls = world.pool.calls();
  EXPECT_EQ(world.pool.PromptOf(calls.at(0)), (std::vector<int32_t>{256, 104, 105}));
  EXPECT_EQ(world.pool.Ids(calls.at(0).sampled_keys()), sampled);
  body["prompt_token_ids"] = array{100000};
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), body).status), 400);
}

// A model has rows for more ids than its tokenizer has tokens, and may sample them.
TEST(Answer, TakesIdsBeyondTheTokenizerThatTheModelKnows) {
  World world([](const auto&) { return Say("ok"); });
  world.with_admission = world.with_pool = false;
  const int32_t tokens = TestTokenizer()->vocab_size();
  world.vocab_size = tokens + 64;
  const auto ask = [&](const char* dialect, int32_t id) {
    return world.Ask(dialect, "key", absl::StrCat(R"({"prompt_token_ids":[256,)", id, R"(],"max_tokens":9})"));
  };
  for (const char* dialect : {"chat.completions", "completions"}) {
    const auto outcome = ask(dialect, tokens + 63);
    ASSERT_TRUE(outcome.status.ok()) << dialect << outcome.status;
    EXPECT_EQ(world.engine->requests().back().prompt_ids(1), tokens + 63);
    EXPECT_EQ(HttpStatusOf(ask(dialect, tokens + 64).status), 400);
  }
}

TEST(Answer, TakesTokenIdsInThePlaceOfAnyDialectsPrompt) {
  World world([](const auto&) { return Say("ok"); });
  world.with_admission = world.with_pool = false;
  const std::vector<int32_t> ids = {256, 104, 105};
  for (const char* rest : {"", R"(,"messages":[{"role":"user","content":"x"}],"input":"x")"}) {
    for (const char* dialect : {"chat.completions", "completions", "responses", "messages", "google.generateContent"}) {
      const auto outcome =
          world.Ask(dialect, "key", absl::StrCat(R"({"prompt_token_ids":[256,104,105],"max_tokens":9)", rest, "}"));
      ASSERT_TRUE(outcome.status.ok()) << dialect << outcome.status;
      const auto sent = world.engine->requests().back().prompt_ids();
      EXPECT_EQ(std::vector<int32_t>(sent.begin(), sent.end()), ids) << dialect;
    }
  }
}

TEST(Answer, LooksAtTheKeyBeforeTheBody) {
  World world([](const auto&) { return Say("ok"); });
  const auto outcome = world.Ask("chat.completions", "nobody's", "{");
  EXPECT_EQ(HttpStatusOf(outcome.status), 401);
  EXPECT_EQ(HttpStatusOf(world.Ask("chat.completions", world.Open().api_key(), "{").status), 400);
}

TEST(Answer, NamesEveryIdOnceInTheEventsOfAnyDialect) {
  World world([](const auto&) {
    return Say("<think>\nhm\n</think>\n\ngrüße\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>");
  });
  world.with_admission = world.with_pool = false;
  const std::pair<const char*, const char*> cases[] = {
      {"chat.completions",
       R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"stream":true})"},
      {"messages",
       R"({"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{}}],"stream":true})"},
      {"responses", R"({"input":"x","stream":true,"tools":[{"type":"function","name":"f"}]})"},
      {"completions", R"({"prompt":"x","stream":true})"},
      {"google.streamGenerateContent",
       R"({"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]})"}};
  for (const auto& [name, body] : cases) {
    const auto outcome = world.Ask(name, "key", body, {}, true);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    std::vector<int32_t> ids;
    for (const Token& token : outcome.tokens) {
      ids.push_back(token.id);
      EXPECT_EQ(token.logprob, -(1 + token.id % 7) / 8.0f);
    }
    EXPECT_EQ(ids,
              TestTokenizer()->Encode("<think>\nhm\n</think>\n\ngrüße\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
                                      "{}}\n</tool_call><|im_end|>",
                                      true))
        << name;
  }
}

TEST(Answer, CountsReasoningTokens) {
  World world([](const auto&) { return Say("<think>\nabcd\n</think>\n\nyes"); });
  world.with_admission = world.with_pool = false;
  const auto outcome = world.Ask("responses", "key", R"({"input":"x"})");
  EXPECT_EQ(outcome.events.at(0).at("usage").at("output_tokens_details").at("reasoning_tokens"), 4);
}

TEST(Answer, MatchesTheEchoOfEachDialect) {
  World world([](const auto&) {
    return Say(
        "<think>\nhm\n</think>\n\nLet me.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, "
        "2.0]}}\n</tool_call>");
  });
  world.with_admission = world.with_pool = false;
  int64_t spliced = 0;
  const auto expect_spliced = [&](const char* name) {
    EXPECT_EQ(world.gateway().Status().spliced_calls(), ++spliced) << name;
    EXPECT_TRUE(world.gateway().Status().forks().empty()) << name;
  };
  object messages = base::ParseJson(R"({"thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"one"}],
          "tools":[{"name":"f","input_schema":{}}]})")
                        ->as_object();
  for (int turn = 0; turn < 2; ++turn) {
    const auto outcome = world.Ask("messages", "a", base::PrintJson(messages));
    const array& content = outcome.events.at(0).at("content").as_array();
    if (turn > 0) expect_spliced("messages");
    array& list = messages["messages"].as_array();
    list.push_back(object{{"role", "assistant"}, {"content", content}});
    list.push_back(object{
        {"role", "user"},
        {"content", array{object{{"type", "tool_result"}, {"tool_use_id", content[2].at("id")}, {"content", "3"}}}}});
  }
  object responses =
      base::ParseJson(R"({"input":[{"role":"user","content":"two"}],"tools":[{"type":"function","name":"f"}]})")
          ->as_object();
  for (int turn = 0; turn < 2; ++turn) {
    const auto outcome = world.Ask("responses", "b", base::PrintJson(responses));
    const array& output = outcome.events.at(0).at("output").as_array();
    if (turn > 0) expect_spliced("responses");
    array& list = responses["input"].as_array();
    for (const value& item : output) list.push_back(item);
    list.push_back(object{{"type", "function_call_output"}, {"call_id", output[2].at("call_id")}, {"output", "3"}});
  }
}

}  // namespace
}  // namespace ingot::gateway
