#include "gateway/gateway.h"

#include <gtest/gtest.h>

#include "base/fault.h"
#include "gateway/api/api_error.h"
#include "gateway/fakes.h"

namespace ingot::gateway::gateway_test {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kCallText[] =
    "Let me add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>";

std::vector<int32_t> Vec(const google::protobuf::RepeatedField<int32_t>& ids) { return {ids.begin(), ids.end()}; }

Script Say(std::string text) {
  Script script;
  script.text = std::move(text);
  return script;
}

std::string PromptText(const v1::GenerateRequest& request) {
  return TestTokenizer()->Decode(Vec(request.prompt_ids()), false);
}

// First turn: a tool call; later turns: an answer.
Script ToolThenAnswer(const v1::GenerateRequest& request) {
  return Say(PromptText(request).find("<tool_response>") == std::string::npos ? kCallText : "It is 3.");
}

std::vector<int32_t> Encode(const std::string& text) { return TestTokenizer()->Encode(text, true); }

array Question() { return {Msg("system", "You add."), Msg("user", "1+2?")}; }

TEST(Gateway, ContinuesOnTheSampledIdsWhenTheAgentRepeatsItsHistory) {
  World world(ToolThenAnswer);
  const auto episode = world.Open();
  object body = Body(Question());
  body["tools"] = CalculatorTools();
  const auto first = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(first.status.ok()) << first.status;
  ASSERT_EQ(first.message().at("content").as_string(), "Let me add.");
  ASSERT_EQ(first.events[0].at("choices").at(0).at("finish_reason").as_string(), "tool_calls");

  // The client prints the arguments in its own way and drops fields that it does not know.
  object echoed = first.message().as_object();
  EXPECT_EQ(echoed["tool_calls"].at(0).at("function").at("name").as_string(), "add");
  echoed["tool_calls"].as_array()[0].as_object()["function"].as_object()["arguments"] = R"({ "b":2, "a":1 })";
  object result = Msg("tool", "3");
  result["tool_call_id"] = echoed["tool_calls"].at(0).at("id");
  body["messages"].as_array().push_back(echoed);
  body["messages"].as_array().push_back(result);
  const auto second = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(second.status.ok()) << second.status;
  EXPECT_EQ(second.message().at("content").as_string(), "It is 3.");

  const auto requests = world.engine->requests();
  ASSERT_EQ(requests.size(), 2u);
  std::vector<int32_t> expected = Vec(requests[0].prompt_ids());
  for (int32_t id : Encode(std::string(kCallText) + "<|im_end|>")) expected.push_back(id);
  const std::vector<int32_t> tail =
      Encode("\n<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
  expected.insert(expected.end(), tail.begin(), tail.end());
  EXPECT_EQ(Vec(requests[1].prompt_ids()), expected);

  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].fork_cause(), "");
  EXPECT_EQ(calls[0].sequence(), 0);
  EXPECT_EQ(calls[1].sequence(), 1);
  ASSERT_EQ(calls[0].context_keys_size(), 2);  // system | rest
  EXPECT_FALSE(calls[0].has_continued_segments());
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].continued_segments(), 1);
  ASSERT_EQ(calls[1].context_keys_size(), 1);
  EXPECT_EQ(Vec(world.pool.segment(calls[1].context_keys(0)).token_ids()), tail);
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  EXPECT_TRUE(world.gateway().Status().forks().empty());
}

TEST(Gateway, RecordsExactlyTheEnginesPromptAndSamples) {
  World world(ToolThenAnswer);
  const auto episode = world.Open();
  array messages = Question();
  for (int turn = 0; turn < 5; ++turn) {
    object body = Body(messages);
    const auto outcome = world.Chat(episode.api_key(), body);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    messages.push_back(outcome.message());
    messages.push_back(Msg("user", "more " + std::to_string(turn)));
  }
  const auto requests = world.engine->requests();
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 5u);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(world.pool.PromptOf(calls[i]), Vec(requests[i].prompt_ids())) << i;
    ASSERT_EQ(calls[i].sampled_keys_size(), 1);
    const v1::Segment sampled = world.pool.segment(calls[i].sampled_keys(0));
    EXPECT_EQ(sampled.source(), v1::SOURCE_SAMPLED);
    EXPECT_EQ(Vec(sampled.token_ids()), Encode(std::string(kCallText) + "<|im_end|>"));
    ASSERT_EQ(sampled.logprobs_size(), sampled.token_ids_size());
    int covered = 0;
    for (const v1::VersionRun& run : sampled.versions()) {
      for (int k = 0; k < run.count(); ++k, ++covered) {
        EXPECT_EQ(run.version(), covered / 4);
        EXPECT_EQ(sampled.logprobs(covered), -(1 + sampled.token_ids(covered) % 7) / 8.0f);
      }
    }
    EXPECT_EQ(covered, sampled.token_ids_size());
    EXPECT_EQ(calls[i].sampling().temperature(), 1.0f);
    EXPECT_EQ(calls[i].tokenizer_fingerprint(), TestTokenizer()->fingerprint());
    EXPECT_EQ(calls[i].template_fingerprint(), TestFormat()->fingerprint());
    EXPECT_EQ(calls[i].finish(), v1::FINISH_STOP);
    EXPECT_EQ(calls[i].delivered_tokens(), sampled.token_ids_size());
    EXPECT_EQ(calls[i].cached_tokens(), 2);
    EXPECT_EQ(calls[i].times().arrival_unix_ns(), world.clock.UnixNanos());
  }
}

TEST(Gateway, StoresASharedSystemPromptOnce) {
  World world([](const auto&) { return Say("ok"); });
  for (int i = 0; i < 3; ++i) {
    const auto episode = world.Open();
    ASSERT_TRUE(
        world.Chat(episode.api_key(), Body({Msg("system", "Long."), Msg("user", std::to_string(i))})).status.ok());
  }
  EXPECT_EQ(world.pool.segments(), 1u + 3u + 1u);  // system, three questions, three equal samples
}

// ---- Reasoning in the history ----

Script Thinker(const v1::GenerateRequest& request) {
  const bool answered = PromptText(request).find("<tool_response>") != std::string::npos;
  return Say(answered ? "<think>\nsum it\n</think>\n\nIt is 3."
                      : std::string("<think>\nlook\n</think>\n\n") + kCallText);
}

// Three calls: a tool is called, its result is read, the user asks on. The client drops the reasoning it was sent.
std::vector<v1::Call> CallsOfAThinker(HistoryThinking mode, std::vector<std::string>& prompts) {
  World world(Thinker);
  world.options.history_thinking = mode;
  const auto episode = world.Open();
  object body = Body(Question());
  body["tools"] = CalculatorTools();
  const auto say = [&] {
    const auto outcome = world.Chat(episode.api_key(), body);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    object message = outcome.message().as_object();
    EXPECT_TRUE(message.contains("reasoning_content"));
    message.erase("reasoning_content");
    body["messages"].as_array().push_back(message);
  };
  say();
  body["messages"].as_array().push_back(Msg("tool", "3"));
  say();
  body["messages"].as_array().push_back(Msg("user", "and then?"));
  say();
  for (const v1::GenerateRequest& request : world.engine->requests()) prompts.push_back(PromptText(request));
  return world.pool.calls();
}

TEST(Gateway, ReasoningStaysWhileTheTemplateKeepsItThoughTheClientDropsIt) {
  std::vector<std::string> prompts;
  const auto calls = CallsOfAThinker(HistoryThinking::kTemplate, prompts);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].fork_cause(), "");
  EXPECT_NE(prompts[1].find("<think>\nlook\n</think>"), std::string::npos);
  // The user's next question: the template leaves the reasoning before it out.
  EXPECT_EQ(calls[2].parent_call_id(), "");
  EXPECT_EQ(calls[2].fork_cause(), kForkThinkingStripped);
  EXPECT_EQ(prompts[2].find("look\n</think>"), std::string::npos);
  EXPECT_EQ(prompts[2].find("sum it"), std::string::npos);
}

TEST(Gateway, ReasoningStaysInContextWhereTheConfigurationKeepsIt) {
  std::vector<std::string> prompts;
  const auto calls = CallsOfAThinker(HistoryThinking::kKeep, prompts);
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[2].parent_call_id(), calls[1].call_id());
  EXPECT_EQ(calls[2].fork_cause(), "");
  EXPECT_NE(prompts[2].find("<think>\nlook\n</think>"), std::string::npos);
  EXPECT_NE(prompts[2].find("<think>\nsum it\n</think>"), std::string::npos);
}

// Nobody sampled this answer where it stands: the template writes it as it was sent, and no thought of elsewhere. That
// holds in an episode, and among callers without a key, who share a session.
TEST(Gateway, ReasoningOfOneConversationIsNotRenderedInAnother) {
  for (const bool served : {false, true}) {
    World world([](const auto&) { return Say("<think>\nSECRET\n</think>\n\nYes."); });
    world.with_admission = !served;
    const std::string key = served ? "" : world.Open().api_key();
    ASSERT_TRUE(world.Chat(key, Body({Msg("user", "question A")})).status.ok());
    const auto asked = [](const char* first) {
      // A tool's question, after which the format still writes thoughts.
      return Body({Msg("user", first), Msg("assistant", "Yes."), Msg("tool", "question B")});
    };
    ASSERT_TRUE(world.Chat(key, asked("shot")).status.ok());
    EXPECT_EQ(PromptText(world.engine->requests()[1]).find("SECRET"), std::string::npos) << served;
    ASSERT_TRUE(world.Chat(key, asked("question A")).status.ok());
    EXPECT_NE(PromptText(world.engine->requests()[2]).find("SECRET"), std::string::npos) << "here it was sampled";
    EXPECT_EQ(world.pool.calls()[2].parent_call_id(), world.pool.calls()[0].call_id());
  }
}

// ---- Forks ----

struct ForkCase {
  const char* cause;
  std::function<void(object&)> change;  // of the second request's body
};

TEST(Gateway, CountsForksByCause) {
  const ForkCase cases[] = {
      {kForkHistoryRewritten, [](object& body) { body["messages"].as_array()[0] = Msg("system", "You subtract."); }},
      {kForkNotFound, [](object& body) { body["messages"].as_array()[2] = Msg("assistant", "Something else."); }},
      {kForkArgumentsChanged,
       [](object& body) {
         body["messages"]
             .as_array()[2]
             .as_object()["tool_calls"]
             .as_array()[0]
             .as_object()["function"]
             .as_object()["arguments"] = R"({"a":1,"b":3})";
       }},
      {kForkToolsChanged,
       [](object& body) { body["tools"].as_array()[0].as_object()["function"].as_object()["name"] = "plus"; }},
      {kForkNewConversation, [](object& body) { body["messages"] = array{Msg("user", "unrelated")}; }},
  };
  for (const ForkCase& fork : cases) {
    World world(ToolThenAnswer);
    const auto episode = world.Open();
    object body = Body(Question());
    body["tools"] = CalculatorTools();
    const auto first = world.Chat(episode.api_key(), body);
    ASSERT_TRUE(first.status.ok());
    body["messages"].as_array().push_back(first.message());
    body["messages"].as_array().push_back(Msg("tool", "3"));
    fork.change(body);
    ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    const auto calls = world.pool.calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[1].fork_cause(), fork.cause);
    EXPECT_EQ(calls[1].parent_call_id(), "") << fork.cause;
    EXPECT_EQ(world.pool.PromptOf(calls[1]), Vec(world.engine->requests()[1].prompt_ids()));
    const v1::GatewayStatusResponse status = world.gateway().Status();
    ASSERT_EQ(status.forks().size(), 1u) << fork.cause;
    EXPECT_EQ(status.forks().at(fork.cause), 1);
    EXPECT_EQ(status.spliced_calls(), 0);
  }
}

TEST(Gateway, ContinuesTheLastTurnThatStillStandsWhenALaterOneWasRewritten) {
  int turn = 0;
  World world([&](const auto&) { return Say("answer " + std::to_string(turn++)); });
  const auto episode = world.Open();
  array messages = Question();
  for (int i = 0; i < 2; ++i) {
    const auto outcome = world.Chat(episode.api_key(), Body(messages));
    messages.push_back(outcome.message());
    messages.push_back(Msg("user", "go on"));
  }
  messages[4] = Msg("assistant", "what it should have said");
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[2].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[2].fork_cause(), kForkNotFound);
  EXPECT_EQ(world.pool.PromptOf(calls[2]), Vec(world.engine->requests()[2].prompt_ids()));
  EXPECT_NE(PromptText(world.engine->requests()[2]).find("what it should have said<|im_end|>"), std::string::npos);
}

TEST(Gateway, TellsEqualAnswersApartByTheirToolCallId) {
  World world(ToolThenAnswer);
  const auto episode = world.Open();
  object body = Body(Question());
  body["tools"] = CalculatorTools();
  const auto one = world.Chat(episode.api_key(), body);
  const auto two = world.Chat(episode.api_key(), body);  // the same again: equal content, another call
  body["messages"].as_array().push_back(one.message());
  body["messages"].as_array().push_back(Msg("tool", "3"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[2].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].fork_cause(), kForkRetry);
}

TEST(Gateway, DoesNotSpliceAcrossEpisodes) {
  World world(ToolThenAnswer);
  const auto one = world.Open(), two = world.Open();
  array messages = Question();
  messages.push_back(world.Chat(one.api_key(), Body(messages)).message());
  messages.push_back(Msg("user", "and?"));
  ASSERT_TRUE(world.Chat(two.api_key(), Body(messages)).status.ok());
  EXPECT_EQ(world.pool.calls()[1].parent_call_id(), "");
}

TEST(Gateway, KeepsAStopStringInTheIdsAndOutOfTheText) {
  World world([](const auto&) {
    Script script = Say("one two END");
    script.end_of_turn = false;
    script.stop_string = " END";
    return script;
  });
  const auto episode = world.Open();
  object body = Body(Question());
  body["stop"] = " END";
  const auto first = world.Chat(episode.api_key(), body);
  EXPECT_EQ(first.message().at("content").as_string(), "one two");
  body["messages"].as_array().push_back(first.message());
  body["messages"].as_array().push_back(Msg("user", "next"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_NE(PromptText(world.engine->requests()[1]).find("one two END<|im_end|>\n<|im_start|>user\nnext"),
            std::string::npos);
}

// ---- Sampling ----

TEST(Gateway, PinsSamplingInTrainingWhateverTheClientAsks) {
  World world([](const auto&) { return Say("ok"); });
  world.options.train_sampling = {.temperature = 0.7f, .top_p = 0.9f, .top_k = 5, .min_p = 0.1f};
  world.options.max_new_tokens = 50;
  object body = Body(Question());
  body["temperature"] = 0;
  body["seed"] = 1;
  body["max_tokens"] = 1000;
  body["frequency_penalty"] = 1.5;
  std::set<uint64_t> seeds;
  for (int i = 0; i < 3; ++i) {
    const auto episode = world.Open();
    ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  }
  for (const v1::GenerateRequest& request : world.engine->requests()) {
    EXPECT_EQ(request.sampling().temperature(), 0.7f);
    EXPECT_EQ(request.sampling().top_p(), 0.9f);
    EXPECT_EQ(request.sampling().top_k(), 5);
    EXPECT_EQ(request.sampling().min_p(), 0.1f);
    EXPECT_EQ(request.sampling().max_new_tokens(), 50);
    EXPECT_EQ(request.pinned_version(), -1);
    EXPECT_EQ(request.min_version(), 3) << "the version the episode was admitted at";
    EXPECT_EQ(Vec(request.sampling().stop_token_ids()), TestFormat()->end_of_turn_ids());
    seeds.insert(request.sampling().seed());
  }
  EXPECT_EQ(seeds.size(), 6u);  // equal requests, different draws
}

TEST(Gateway, RejectsGreedyTraining) {
  GatewayOptions options;
  options.train_sampling.temperature = 0;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
  options.train_sampling.temperature = 1;
  options.eval_sampling.temperature = 0;
  EXPECT_TRUE(options.Validate().ok());
}

TEST(Gateway, PinsTheVersionOfAnEvaluation) {
  World world([](const auto&) { return Say("ok"); });
  world.admission.purpose = v1::PURPOSE_EVAL;
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  EXPECT_EQ(world.engine->requests()[0].pinned_version(), 5);
  EXPECT_EQ(world.engine->requests()[0].min_version(), 0);
  EXPECT_EQ(world.pool.calls()[0].weights(), v1::WEIGHTS_PINNED);
  EXPECT_EQ(world.pool.episode(episode.episode_id()).pinned_version(), 5);
}

TEST(Gateway, AnEvaluationHasACapOfItsOwn) {
  const auto caps = [](v1::EpisodePurpose purpose, int32_t own, int32_t unasked) {
    World world([](const auto&) { return Say("ok"); });
    world.options.max_new_tokens = 50;
    world.options.eval_max_new_tokens = own;
    world.options.default_max_tokens = unasked;
    world.admission.purpose = purpose;
    const auto episode = world.Open();
    std::vector<int32_t> sent;
    for (const int asked : {0, 20, 1000}) {
      object body = Body(Question());
      if (asked > 0) body["max_tokens"] = asked;
      EXPECT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    }
    for (const v1::GenerateRequest& request : world.engine->requests()) {
      sent.push_back(request.sampling().max_new_tokens());
    }
    return sent;
  };
  EXPECT_EQ(caps(v1::PURPOSE_EVAL, 70, 0), (std::vector<int32_t>{70, 20, 70}));
  EXPECT_EQ(caps(v1::PURPOSE_EVAL, 10, 0), (std::vector<int32_t>{10, 10, 10}));
  EXPECT_EQ(caps(v1::PURPOSE_EVAL, 70, 30), (std::vector<int32_t>{30, 20, 70}));
  EXPECT_EQ(caps(v1::PURPOSE_EVAL, 0, 0), (std::vector<int32_t>{50, 20, 50})) << "the run's";
  EXPECT_EQ(caps(v1::PURPOSE_TRAIN, 70, 0), (std::vector<int32_t>{50, 20, 50})) << "training keeps its own";
}

TEST(Gateway, SamplesAsAServedClientAsks) {
  World world([](const auto&) { return Say("ok"); });
  world.with_admission = world.with_pool = false;
  object body = Body(Question());
  body["temperature"] = 0.25;
  body["seed"] = 11;
  body["top_k"] = -1;
  body["max_completion_tokens"] = 9;
  ASSERT_TRUE(world.Chat("any key", body).status.ok());
  const v1::SamplingParams sampling = world.engine->requests()[0].sampling();
  EXPECT_EQ(sampling.temperature(), 0.25f);
  EXPECT_EQ(sampling.seed(), 11u);
  EXPECT_EQ(sampling.top_k(), 0);
  EXPECT_EQ(sampling.max_new_tokens(), 9);
  EXPECT_FALSE(sampling.penalty_acted() || sampling.bias_acted() || sampling.grammar_acted());
  body["presence_penalty"] = 1;
  body["frequency_penalty"] = -0.5;
  body["repetition_penalty"] = 1.5;
  body["logit_bias"] = object{{"7", -100}};
  ASSERT_TRUE(world.Chat("any key", body).status.ok());
  const v1::SamplingParams changed = world.engine->requests()[1].sampling();
  EXPECT_EQ(changed.presence_penalty(), 1.0f);
  EXPECT_EQ(changed.frequency_penalty(), -0.5f);
  EXPECT_EQ(changed.repetition_penalty(), 1.5f);
  EXPECT_EQ(changed.logit_bias().at(7), -100.0f);
  EXPECT_TRUE(changed.penalty_acted() && changed.bias_acted());
}

TEST(Gateway, SplicesForServedSessionsToo) {
  World world(ToolThenAnswer);
  world.with_admission = world.with_pool = false;
  array messages = Question();
  messages.push_back(world.Chat("", Body(messages)).message());
  messages.push_back(Msg("user", "and?"));
  ASSERT_TRUE(world.Chat("", Body(messages)).status.ok());
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
}

// ---- Failure ----

TEST(Gateway, DeliversNothingThatThePoolDidNotStore) {
  World world(ToolThenAnswer);
  const auto episode = world.Open();
  world.pool.FailAppend(absl::UnavailableError("disk full"));
  for (const bool stream : {false, true}) {
    object body = Body(Question());
    body["stream"] = stream;
    const auto outcome = world.Chat(episode.api_key(), body);
    EXPECT_EQ(HttpStatusOf(outcome.status), 503);
    EXPECT_NE(outcome.status.message().find("disk full"), absl::string_view::npos);
    for (const value& event : outcome.events) EXPECT_TRUE(event.at("choices").at(0).at("finish_reason").is_null());
    if (!stream) {
      EXPECT_TRUE(outcome.events.empty());
    }
  }
  // An answer that was not delivered is not continued.
  world.pool.FailAppend(absl::OkStatus());
  array messages = Question();
  messages.push_back(Msg("assistant", kCallText));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  EXPECT_EQ(world.pool.calls().at(0).parent_call_id(), "");
}

TEST(Gateway, HoldsTheTerminalEventUntilTheRecordIsDurable) {
  World world([](const auto&) { return Say("hello"); });
  const auto episode = world.Open();
  world.pool.CloseGate(true);
  object body = Body(Question());
  body["stream"] = true;
  auto flag = std::make_shared<Flag>();
  const auto call = world.StartChat(episode.api_key(), body, [flag] { flag->Set(); });
  flag->WaitAndClear();
  for (int i = 0; i < 50; ++i) {
    const Answer::Output out = call->TakeOutput();
    EXPECT_FALSE(out.done);
    for (const WireEvent& event : out.events) EXPECT_EQ(event.data.find("\"stop\""), std::string::npos);
  }
  world.pool.CloseGate(false);
  bool done = false;
  while (!done) {
    flag->WaitAndClear();
    done = call->TakeOutput().done;
  }
  EXPECT_EQ(world.pool.calls().size(), 1u);
}

TEST(Gateway, RecordsTheSampledIdsOfAnAbortedCall) {
  World world([](const auto&) {
    Script script = Say("a long answer");
    script.hold = true;
    return script;
  });
  const auto episode = world.Open();
  object body = Body(Question());
  body["stream"] = true;
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), body, [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  flag->WaitAndClear();
  call->TakeOutput();
  call->TakeOutput();  // says that the first was sent
  call->Abort(absl::CancelledError("the client disconnected"));
  while (!call->TakeOutput().done) flag->WaitAndClear();
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].finish(), v1::FINISH_ABORTED);
  EXPECT_EQ(world.pool.Ids(calls[0].sampled_keys()), Encode("a long answer<|im_end|>"));
  EXPECT_EQ(calls[0].delivered_tokens(), 13);
  world.engine->WaitForAborted(1);
}

TEST(Gateway, RecordsTheIdsSampledBeforeTheEngineFailed) {
  World world([](const auto&) {
    Script script = Say("half");
    script.error = absl::UnavailableError("the engine is gone");
    return script;
  });
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  EXPECT_EQ(HttpStatusOf(outcome.status), 503);
  ASSERT_EQ(world.pool.calls().size(), 1u);
  EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_ERROR);
}

TEST(Gateway, RejectsChunksWithoutLogprobsOrVersions) {
  World world([](const auto&) {
    Script script = Say("a long answer");
    script.bad_logprobs = true;
    return script;
  });
  const auto episode = world.Open();
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 500);
}

// An engine names a field of its own request at fault; the client gets the name of its own field.
TEST(Gateway, NamesTheFieldThatTheEngineRejects) {
  base::Fault fault;
  World world([&](const auto&) {
    Script script = Say("");
    script.end_of_turn = false;
    script.error = base::Annotate(base::FaultError(fault), "request 7");
    return script;
  });
  world.with_admission = world.with_pool = false;
  const object format{{"type", "json_schema"}, {"json_schema", object{{"schema", object{{"not", object{}}}}}}};
  const array tools = *base::ParseJson(R"([{"type":"function","function":{"name":"f"}}])")->if_array();
  const auto rejection = [&](const object& more, const std::string& field) {
    fault = {field, "why"};
    object body = Body(Question());
    for (const auto& [name, value] : more) body[name] = value;
    const absl::Status status = world.Chat("key", body).status;
    EXPECT_EQ(HttpStatusOf(status), 400);
    return ErrorJson(status);
  };
  const auto expected = [](const std::string& param) {
    return R"({"error":{"message":"')" + param + R"(' cannot be used: why","type":"invalid_request_error","param":")" +
           param + R"(","code":null}})";
  };
  EXPECT_EQ(rejection({{"logit_bias", object{{"7", 1}}}}, "sampling.logit_bias"), expected("logit_bias"));
  const std::string first = "grammar.alternatives[0].parts[1].repeat.alternatives[0].parts[1]";
  EXPECT_EQ(rejection({{"response_format", format}}, "grammar.alternatives[0].parts[0]"), expected("response_format"));
  EXPECT_EQ(rejection({{"response_format", format}}, "sampling.grammar"), expected("response_format"));
  EXPECT_EQ(rejection({{"tools", tools}, {"tool_choice", "required"}}, first), expected("tools"));
  EXPECT_EQ(rejection({{"tools", tools}, {"response_format", format}}, first), expected("tools"));
  EXPECT_EQ(rejection({{"tools", tools}, {"response_format", format}}, "grammar.alternatives[1].parts[0]"),
            expected("response_format"));
}

TEST(Gateway, PassesOnAFullQueueAs429) {
  World world([](const auto&) {
    Script script = Say("");
    script.end_of_turn = false;
    script.error = absl::ResourceExhaustedError("the queue is full");
    return script;
  });
  for (const bool direct : {false, true}) {
    world.engine->inline_chunks = direct;
    const auto episode = world.Open();
    EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 429);
  }
  EXPECT_TRUE(world.pool.calls().empty());
}

TEST(Gateway, WorksWithAnEngineThatAnswersFromInsideGenerate) {
  World world([](const auto&) { return Say("at once"); });
  world.engine->inline_chunks = true;
  const auto episode = world.Open();
  EXPECT_EQ(world.Chat(episode.api_key(), Body(Question())).message().at("content").as_string(), "at once");
}

TEST(Gateway, SaysWhenTheContextIsTooLong) {
  World world([](const auto&) { return Say("ok"); });
  world.engine->context_length = 60;
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body({Msg("user", std::string(100, 'x'))}));
  EXPECT_EQ(HttpStatusOf(outcome.status), 400);
  EXPECT_NE(ErrorJson(outcome.status).find(R"("code":"context_length_exceeded")"), std::string::npos);
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "hi")})).status.ok());
  const v1::GenerateRequest request = world.engine->requests().at(0);
  EXPECT_EQ(request.sampling().max_new_tokens(), 60 - request.prompt_ids_size());
}

TEST(Gateway, AbortsACallAtItsDeadline) {
  World world([](const auto&) {
    Script script = Say("slow");
    script.hold = true;
    return script;
  });
  world.options.call_deadline_s = 30;
  const auto episode = world.Open();
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  world.clock.Advance(std::chrono::seconds(29));
  world.gateway().Tick();
  EXPECT_FALSE(call->TakeOutput().done);
  world.clock.Advance(std::chrono::seconds(2));
  world.gateway().Tick();
  Answer::Output out;
  while (!(out = call->TakeOutput()).done) flag->WaitAndClear();
  EXPECT_EQ(HttpStatusOf(out.status), 504);
  EXPECT_EQ(world.pool.calls().at(0).finish(), v1::FINISH_ABORTED);
  EXPECT_EQ(world.pool.calls().at(0).delivered_tokens(), 0);
}

TEST(Gateway, RejectsRequestsBeyondItsLimits) {
  World world([](const auto&) {
    Script script = Say("slow");
    script.hold = true;
    return script;
  });
  world.options.max_active_calls = 1;
  world.options.max_open_episodes = 1;
  const auto episode = world.Open();
  EXPECT_TRUE(absl::IsResourceExhausted(world.gateway().OpenEpisode({}).status()));
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 429);
  world.engine->Release();
  while (!call->TakeOutput().done) flag->WaitAndClear();
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
}

TEST(Gateway, LimitsTheCallsOfAnEpisode) {
  World world([](const auto&) { return Say("ok"); });
  world.options.max_calls_per_episode = 2;
  const auto episode = world.Open();
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  const absl::Status rejected = world.Chat(episode.api_key(), Body(Question())).status;
  EXPECT_EQ(HttpStatusOf(rejected), 400);
  EXPECT_FALSE(MayRetry(rejected));
  EXPECT_EQ(ErrorCodeOf(rejected), "episode_limit");
}

// ---- Episodes ----

TEST(Gateway, AnswersAdmissionsRejections) {
  World world([](const auto&) { return Say("ok"); });
  world.admission.places = 1;
  const auto episode = world.Open();
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode({}).status()), 429);
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FAILED, "crashed").ok());
  world.admission.SetOver();
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode({}).status()), 410);
}

TEST(Gateway, GivesThePlaceBackIfTheEpisodeCannotBeStored) {
  World world([](const auto&) { return Say("ok"); });
  world.admission.places = 1;
  world.pool.FailOpen(absl::UnavailableError("disk full"));
  EXPECT_TRUE(absl::IsUnavailable(world.gateway().OpenEpisode({}).status()));
  ASSERT_EQ(world.admission.ended().size(), 1u);
  EXPECT_EQ(world.admission.ended()[0].state(), v1::EPISODE_FENCED);
  // Not FAILED_PRECONDITION: that is how a runner learns that the run is over.
  world.pool.FailOpen(absl::FailedPreconditionError("a newer attempt was opened"));
  EXPECT_TRUE(absl::IsAborted(world.gateway().OpenEpisode({}).status()));
  world.pool.FailOpen(absl::OkStatus());
  EXPECT_TRUE(world.gateway().OpenEpisode({}).ok());
}

TEST(Gateway, EndsAnEpisodeWithItsRewardAndSignals) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  EXPECT_EQ(HttpStatusOf(world.End(episode, v1::EPISODE_FINISHED)), 409);  // no reward yet
  ASSERT_TRUE(world.gateway().RewardEpisode(episode.episode_id(), episode.api_key(), 0.25, {{"a", 1}, {"b", 2}}).ok());
  ASSERT_TRUE(world.gateway().RewardEpisode(episode.episode_id(), episode.api_key(), 0.5, {{"b", 3}}).ok());
  ASSERT_TRUE(world.gateway().RewardEpisode(episode.episode_id(), episode.api_key(), std::nullopt, {{"c", 4}}).ok());
  EXPECT_EQ(HttpStatusOf(world.Reward(episode, std::nan(""))), 400);
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED, "well done").ok());
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  EXPECT_EQ(stored.state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(stored.reward(), 0.5);
  EXPECT_EQ(stored.signals().at("a"), 1);
  EXPECT_EQ(stored.signals().at("b"), 3);
  EXPECT_EQ(stored.signals().at("c"), 4);
  const auto ended = world.admission.ended();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].ref().group_id(), 7);
  EXPECT_EQ(ended[0].reward(), 0.5);

  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED, "well done").ok());  // again: nothing happens
  EXPECT_EQ(world.pool.ends, 1);
  EXPECT_EQ(HttpStatusOf(world.End(episode, v1::EPISODE_FAILED, "no")), 409);
  EXPECT_EQ(HttpStatusOf(world.Reward(episode, 1)), 410);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 410);
  EXPECT_EQ(world.gateway().Status().open_episodes(), 0);
}

TEST(Gateway, EndingMayBeRepeatedUntilItIsDurable) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Reward(episode, 1).ok());
  world.pool.FailEnd(absl::UnavailableError("disk full"));
  EXPECT_TRUE(absl::IsUnavailable(world.End(episode, v1::EPISODE_FINISHED)));
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 410);
  EXPECT_TRUE(world.admission.ended().empty());
  world.pool.FailEnd(absl::OkStatus());
  world.admission.FailEnded(absl::UnavailableError("the scheduler is gone"));
  EXPECT_TRUE(absl::IsUnavailable(world.End(episode, v1::EPISODE_FINISHED)));
  world.admission.FailEnded(absl::OkStatus());
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.admission.ended().size(), 1u);
}

TEST(Gateway, TicksRepeatFailedEnds) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Reward(episode, 1).ok());
  world.pool.FailEnd(absl::UnavailableError("disk full"));
  EXPECT_TRUE(absl::IsUnavailable(world.End(episode, v1::EPISODE_FINISHED, "done")));
  world.pool.FailEnd(absl::OkStatus());
  world.gateway().Tick();
  while (world.gateway().Status().open_episodes() != 0) std::this_thread::yield();
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 1);
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED, "done").ok());
}

TEST(Gateway, EndingAbortsAndRecordsCallsInFlight) {
  World world([](const auto&) {
    Script script = Say("slow");
    script.hold = true;
    return script;
  });
  world.options.worker_threads = 1;
  const auto episode = world.Open();
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FAILED, "timeout").ok());
  ASSERT_EQ(world.pool.calls().size(), 1u);  // before the end, which closes the episode for appends
  EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_ABORTED);
  Answer::Output out;
  while (!(out = call->TakeOutput()).done) flag->WaitAndClear();
  EXPECT_EQ(HttpStatusOf(out.status), 409);
  EXPECT_EQ(ErrorCodeOf(out.status), "episode_sealed");
}

TEST(Gateway, ARestartedRunnerLosesItsEpisodes) {
  World world(ToolThenAnswer);
  const auto open = [&](const std::string& runner, const std::string& incarnation) {
    v1::EpisodeOpenRequest request;
    request.set_runner(runner);
    request.set_incarnation(incarnation);
    return world.gateway().OpenEpisode(request).value();
  };
  const auto lost = open("agents", "1"), other = open("elsewhere", "1"), nobody = world.Open();
  const auto same = open("agents", "1");
  EXPECT_EQ(world.gateway().Status().open_episodes(), 4);
  const auto fresh = open("agents", "2");
  EXPECT_EQ(world.gateway().Status().open_episodes(), 3);
  for (const auto& gone : {lost, same}) {
    const absl::Status late = world.Chat(gone.api_key(), Body(Question())).status;
    EXPECT_EQ(HttpStatusOf(late), 410) << late;
    EXPECT_EQ(world.pool.episode(gone.episode_id()).state(), v1::EPISODE_FENCED);
  }
  // No attempt of theirs has failed: that the runner was started again is not their doing.
  for (const auto& ended : world.admission.ended()) EXPECT_EQ(ended.state(), v1::EPISODE_FENCED);
  EXPECT_EQ(world.admission.ended().size(), 2u);
  for (const auto& alive : {other, nobody, fresh}) {
    EXPECT_TRUE(world.Chat(alive.api_key(), Body(Question())).status.ok());
  }
}

TEST(Gateway, EndsSilentEpisodes) {
  World world([](const auto&) { return Say("ok"); });
  world.options.episode_idle_s = 100;
  const auto episode = world.Open();
  world.clock.Advance(std::chrono::seconds(60));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  world.clock.Advance(std::chrono::seconds(60));
  world.gateway().Tick();
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  world.clock.Advance(std::chrono::seconds(60));
  world.gateway().Tick();
  while (world.gateway().Status().open_episodes() != 0) std::this_thread::yield();
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_FAILED);
}

TEST(Gateway, AnotherKeyReachesNothing) {
  World world([](const auto&) { return Say("ok"); });
  const auto mine = world.Open(), other = world.Open();
  EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode(mine.episode_id(), other.api_key(), 1, {})), 403);
  EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode(mine.episode_id(), "", 1, {})), 401);
  EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode("nothing", other.api_key(), 1, {})), 404);
  v1::EpisodeEndRequest end;
  end.set_episode_id(mine.episode_id());
  end.set_api_key(other.api_key());
  end.set_state(v1::EPISODE_FAILED);
  EXPECT_EQ(HttpStatusOf(world.gateway().EndEpisode(end).status()), 403);
  EXPECT_EQ(HttpStatusOf(world.Chat("guessed", Body(Question())).status), 401);
  EXPECT_EQ(HttpStatusOf(world.Chat("", Body(Question())).status), 401);
  EXPECT_NE(mine.episode_id(), other.episode_id());
  EXPECT_EQ(mine.episode_id().size(), 32u);
}

TEST(Gateway, OpensEpisodesForUnknownKeysIfToldTo) {
  World world([](const auto&) { return Say("ok"); });
  world.options.auto_episodes = true;
  ASSERT_TRUE(world.Chat("key of an agent", Body(Question())).status.ok());
  ASSERT_TRUE(world.Chat("key of an agent", Body(Question())).status.ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  EXPECT_EQ(HttpStatusOf(world.Chat("", Body(Question())).status), 401);
  // Recorded, and no sample of any group: admission was not asked.
  EXPECT_EQ(world.pool.calls().size(), 2u);
  EXPECT_EQ(world.pool.episode(world.pool.calls()[0].episode_id()).purpose(), v1::PURPOSE_SERVE);
  EXPECT_EQ(world.admission.admitted(), 0);
}

TEST(Gateway, MakesRoomForServedSessions) {
  World world([](const auto&) { return Say("ok"); });
  world.with_admission = world.with_pool = false;
  world.options.max_open_episodes = 2;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(world.Chat("key " + std::to_string(i), Body(Question())).status.ok());
    world.clock.Advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(world.gateway().Status().open_episodes(), 2);
  ASSERT_TRUE(world.Chat("key 0", Body(Question())).status.ok());  // forgotten, not refused
}

TEST(Gateway, ShutsDownWithCallsInFlight) {
  World world([](const auto&) {
    Script script = Say("slow");
    script.hold = true;
    return script;
  });
  const auto episode = world.Open();
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  world.gateway().Shutdown();
  EXPECT_EQ(world.pool.calls().at(0).finish(), v1::FINISH_ABORTED);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 503);
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode({}).status()), 503);
}

}  // namespace
}  // namespace ingot::gateway::gateway_test
