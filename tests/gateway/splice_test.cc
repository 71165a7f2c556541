// Prompts that continue sampled ids: after answers that broke off, after turns without their end, at borders between
// turns, and where the template writes history differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/api/api_error.h"
#include "gateway/calls/chat_call.h"
#include "gateway/fakes.h"
#include "gateway/prompt/canonical.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/prompt_plan.h"
#include "gateway/prompt/turn_text.h"
#include "text/chat/template_format.h"
#include "text/output/output_format.h"

namespace ingot::gateway::splice_test {
namespace {

using base::json::array;
using base::json::object;

std::vector<int32_t> Vec(const google::protobuf::RepeatedField<int32_t>& ids) { return {ids.begin(), ids.end()}; }
std::vector<int32_t> Encode(const std::string& text) { return TestTokenizer()->Encode(text, true); }
array Question() { return {Msg("system", "You add."), Msg("user", "1+2?")}; }

Script Say(std::string text) {
  Script script;
  script.text = std::move(text);
  return script;
}

// A stream of which the client read everything that came and then went away; the engine holds its last chunk.
void AbortStream(World& world, const std::string& key, array messages, int held) {
  object body = Body(std::move(messages));
  body["stream"] = true;
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(key, body, [flag] { flag->Set(); });
  world.engine->WaitForHeld(held);
  flag->WaitAndClear();
  call->TakeOutput();
  call->TakeOutput();  // says that the first was sent
  call->Abort(absl::CancelledError("the client disconnected"));
  while (!call->TakeOutput().done) flag->WaitAndClear();
}

// The first answer is held back at its end; later ones come whole.
ScriptedEngine::Author HoldFirst(const std::string& first, const std::string& later) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  return [=](const v1::GenerateRequest&) {
    Script script = Say((*calls)++ == 0 ? first : later);
    script.hold = script.text == first;
    script.end_of_turn = !script.hold;
    return script;
  };
}

array Asking(const std::string& kept, const std::string& then = "go on") {
  array messages = Question();
  messages.push_back(Msg("assistant", kept));
  messages.push_back(Msg("user", then));
  return messages;
}

TEST(Splice, ContinuesOnTheDeliveredIdsOfAStreamThatItsClientBrokeOff) {
  World world(HoldFirst("A long answer that goes on", "Done."));
  const auto episode = world.Open();
  AbortStream(world, episode.api_key(), Question(), 1);
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Asking("A long answer that goes on"))).status.ok());
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].finish(), v1::FINISH_ABORTED);
  EXPECT_EQ(calls[0].delivered_tokens(), 26);
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].fork_cause(), "");
  // prompt of the first call | its sampled ids | the missing end of the turn and the tail
  const auto requests = world.engine->requests();
  std::vector<int32_t> expected = Vec(requests[0].prompt_ids());
  for (const int32_t id :
       Encode("A long answer that goes on<|im_end|>\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n")) {
    expected.push_back(id);
  }
  EXPECT_EQ(Vec(requests[1].prompt_ids()), expected);
  EXPECT_EQ(world.pool.PromptOf(calls[1]), expected);
  EXPECT_EQ(world.gateway().Status().spliced_calls(), 1);
  EXPECT_TRUE(world.gateway().Status().forks().empty());
}

// The client kept a prefix of the stream: the prompt continues the ids of that prefix, with their log-probs and
// versions.
TEST(Splice, ContinuesOnTheIdsWhoseTextTheClientKept) {
  World world(HoldFirst("A long answer that goes on", "Done."));
  const auto episode = world.Open();
  AbortStream(world, episode.api_key(), Question(), 1);
  for (int i = 0; i < 2; ++i) {  // the second time is a retry, and finds the same
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(Asking("A long answer"))).status.ok());
    const v1::Call call = world.pool.calls().at(1 + i);
    EXPECT_EQ(call.parent_call_id(), world.pool.calls()[0].call_id());
    EXPECT_EQ(call.fork_cause(), i == 0 ? "" : kForkRetry);
    EXPECT_EQ(world.pool.PromptOf(call), Vec(world.engine->requests()[1 + i].prompt_ids()));
    EXPECT_EQ(call.continued_segments(), 0) << "of what was sampled, no segment as it is recorded";
    ASSERT_EQ(call.context_keys_size(), 2);  // kept | tail
    const v1::Segment kept = world.pool.segment(call.context_keys(0));
    EXPECT_EQ(kept.source(), v1::SOURCE_SAMPLED);
    EXPECT_EQ(Vec(kept.token_ids()), Encode("A long answer"));
    ASSERT_EQ(kept.logprobs_size(), 13);
    EXPECT_EQ(kept.logprobs(12), -(1 + kept.token_ids(12) % 7) / 8.0f);
    ASSERT_EQ(kept.versions_size(), 4);  // 4 + 4 + 4 + 1
    EXPECT_EQ(kept.versions(3).version(), 3);
    EXPECT_EQ(kept.versions(3).count(), 1);
  }
  // And its continuation is continued.
  array messages = Asking("A long answer");
  messages.push_back(Msg("assistant", "Done."));
  messages.push_back(Msg("user", "thanks"));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[3].parent_call_id(), calls[2].call_id());
  EXPECT_EQ(world.pool.PromptOf(calls[3]), Vec(world.engine->requests()[3].prompt_ids()));
}

TEST(Splice, ForksAfterABrokenStreamWhoseTextWasChanged) {
  World world(HoldFirst("A long answer that goes on", "Done."));
  const auto episode = world.Open();
  AbortStream(world, episode.api_key(), Question(), 1);
  for (const char* changed : {"A long Answer", "A long answer [interrupted by the user]", "long answer"}) {
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(Asking(changed, changed))).status.ok());
    EXPECT_EQ(world.pool.calls().back().parent_call_id(), "") << changed;
    EXPECT_EQ(world.pool.calls().back().fork_cause(), kForkBrokenOff) << changed;
  }
  EXPECT_EQ(world.gateway().Status().forks().at(kForkBrokenOff), 3);
}

// The stream had ended when its client turned away: it is recorded whole, and the client has a beginning of it.
TEST(Splice, ContinuesOnAPrefixOfAnAnswerThatWasRecordedWhole) {
  World world([](const auto&) { return Say("First line.\nSecond line."); });
  const auto episode = world.Open();
  object body = Body(Question());
  body["stream"] = true;
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Asking("First line."))).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(world.pool.PromptOf(calls[1]), Vec(world.engine->requests()[1].prompt_ids()));
  const std::string prompt = TestTokenizer()->Decode(Vec(world.engine->requests()[1].prompt_ids()), false);
  EXPECT_THAT(prompt, ::testing::HasSubstr("assistant\nFirst line.<|im_end|>\n<|im_start|>user\ngo on"));
}

TEST(Splice, ARetryOfAnUndeliveredAnswerIsCountedAsARetry) {
  World world([](const auto&) { return Say("It is 3."); });
  const auto episode = world.Open();
  {
    object body = Body(Question());
    body["stream"] = true;
    auto flag = std::make_shared<Flag>();
    auto call = world.StartChat(episode.api_key(), body, [flag] { flag->Set(); });
    while (world.pool.calls().empty()) flag->WaitAndClear();  // its client reads nothing
    call->Abort(absl::CancelledError("the client disconnected"));
  }
  const auto again = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(again.status.ok());
  auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].finish(), v1::FINISH_STOP);
  EXPECT_EQ(calls[1].fork_cause(), kForkRetry);
  EXPECT_EQ(calls[1].parent_call_id(), "");
  EXPECT_EQ(world.pool.PromptOf(calls[1]), world.pool.PromptOf(calls[0]));
  // Both gave the same answer: the newer is what the client has.
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Asking("It is 3."))).status.ok());
  EXPECT_EQ(world.pool.calls()[2].parent_call_id(), calls[1].call_id());
}

TEST(Splice, ATurnThatWasCutAtItsLengthGetsTheEndThatItLacks) {
  World world([](const v1::GenerateRequest& request) {
    Script script = Say(request.prompt_ids_size() < 80 ? "This is cut in the mid" : "dle.");
    if (request.prompt_ids_size() < 80) {
      script.end_of_turn = false;
      script.finish = v1::FINISH_LENGTH;
    }
    return script;
  });
  const auto episode = world.Open();
  const auto first = world.Chat(episode.api_key(), Body(Question()));
  EXPECT_EQ(first.events[0].at("choices").at(0).at("finish_reason").as_string(), "length");
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Asking("This is cut in the mid"))).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  const std::string prompt = TestTokenizer()->Decode(Vec(world.engine->requests()[1].prompt_ids()), false);
  EXPECT_THAT(prompt, ::testing::HasSubstr("assistant\nThis is cut in the mid<|im_end|>\n<|im_start|>user\ngo on"));
  EXPECT_EQ(world.pool.PromptOf(calls[1]), Vec(world.engine->requests()[1].prompt_ids()));
}

// Two choices have equal text and different thoughts: the thought that was sent back decides.
TEST(Splice, ContinuesTheChoiceWhoseThoughtCameBack) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  World world([calls](const auto&) {
    const int call = (*calls)++;
    return Say(call < 2 ? absl::StrCat("<think>\nR", call, "\n</think>\n\nYes.") : "Done.");
  });
  world.engine->inline_chunks = true;
  world.options.history_thinking = HistoryThinking::kKeep;
  const auto episode = world.Open();
  object body = Body(Question());
  body["n"] = 2;
  const auto both = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(both.status.ok()) << both.status;
  for (int choice = 0; choice < 2; ++choice) {
    array messages = Question();
    messages.push_back(both.events[0].at("choices").at(choice).at("message"));
    ASSERT_EQ(messages[2].at("reasoning_content").as_string(), absl::StrCat("R", choice));
    messages.push_back(Msg("user", absl::StrCat("go on ", choice)));
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
    const std::string prompt = TestTokenizer()->Decode(Vec(world.engine->requests().back().prompt_ids()), false);
    EXPECT_THAT(prompt, ::testing::HasSubstr(absl::StrCat("<think>\nR", choice, "\n</think>\n\nYes.<|im_end|>")));
    EXPECT_EQ(world.pool.calls().back().fork_cause(), "");
    messages[2].as_object()["reasoning_content"] = "EDITED";
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
    EXPECT_EQ(world.pool.calls().back().parent_call_id(), "");
    EXPECT_EQ(world.pool.calls().back().fork_cause(), kForkContentChanged);
  }
}

// The signature that names the call is dropped, the thought is kept.
TEST(Splice, AThoughtWithoutItsSignatureFindsItsCall) {
  auto calls = std::make_shared<std::atomic<int>>(0);
  World world([calls](const auto&) {
    const int call = (*calls)++;
    return Say(call < 2 ? absl::StrCat("<think>\nR", call, "\n</think>\n\nYes.") : "Done.");
  });
  world.options.history_thinking = HistoryThinking::kKeep;
  const auto episode = world.Open();
  const std::string asked = R"({"max_tokens":99,"messages":[{"role":"user","content":"1+2?"})";
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(world.Ask("messages", episode.api_key(), asked + "]}").status.ok());
  for (int i = 0; i < 2; ++i) {
    const std::string turn = absl::StrCat(R"({"role":"assistant","content":[{"type":"thinking","thinking":"R)", i,
                                          R"("},{"type":"text","text":"Yes."}]})");
    ASSERT_TRUE(world
                    .Ask("messages", episode.api_key(),
                         absl::StrCat(asked, ",", turn, R"(,{"role":"user","content":"go on )", i, R"("}]})"))
                    .status.ok());
    EXPECT_EQ(world.pool.calls().back().parent_call_id(), world.pool.calls()[i].call_id());
    EXPECT_EQ(world.pool.calls().back().fork_cause(), "");
  }
}

// The client goes on before the stream that it broke off is recorded.
TEST(Splice, ContinuesABrokenStreamThatIsStillBeingRecorded) {
  World world(HoldFirst("A long answer that goes on", "Done."));
  const auto episode = world.Open();
  object body = Body(Question());
  body["stream"] = true;
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), body, [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  flag->WaitAndClear();
  call->TakeOutput();
  call->TakeOutput();
  world.pool.CloseGate(true);
  call->Abort(absl::CancelledError("the client disconnected"));
  auto next = std::make_shared<Flag>();
  auto answer = world.StartChat(episode.api_key(), Body(Asking("A long answer that goes on")), [next] { next->Set(); });
  world.pool.CloseGate(false);
  while (!answer->TakeOutput().done) next->WaitAndClear();
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].fork_cause(), "");
}

// The same step by step: the plan looks, finds nothing, and waits for a call that samples no more, but for no other.
TEST(Splice, APlanWaitsForCallsThatAreBeingFinishedAlone) {
  World world([](const auto&) { return Say("x"); });
  Core core(world.options, {.engine = world.engine, .tokenizer = TestTokenizer(), .format = TestFormat()});
  v1::EpisodeLimits limits;
  limits.set_max_calls(10);
  base::ManualClock clock;  // stands still: a plan waits for the call however long that takes
  const auto episode = std::make_shared<Episode>(v1::Episode(), limits, true, false, std::nullopt, clock.Now(), clock);
  text::Conversation asked;
  asked.messages.resize(1);
  asked.messages[0].role = "user";
  text::Conversation sent = asked;
  sent.messages.resize(2);
  sent.messages[1].role = "assistant";
  sent.messages[1].content = "Yes.";
  const ConversationKeys asked_keys = ConversationKeys::Of(asked), sent_keys = ConversationKeys::Of(sent);
  const auto add = [&](const std::string& id, const std::string& text) {
    text::Message delivered = sent.messages[1];
    delivered.content = text;
    Continuation continued;
    continued.keys = asked_keys;
    continued.asked = RequestKey::Of(asked_keys);
    episode->AddToHistory(continued, delivered,
                          {.call_id = id,
                           .parent = -1,
                           .prompt = {},
                           .sampled = {PromptSegment(std::vector<int32_t>{1})},
                           .text_key = {},
                           .prefill = {},
                           .streamed_ids = 1});
  };
  add("older", "No.");  // a stream, so that a plan asks for beginnings of it: then it has looked, and holds the lock
  const auto call = std::make_shared<ChatCall>(
      core,
      ChatCall::Setup{.call_id = "id", .choice = 0, .request = {}, .episode = episode, .wake = {}, .on_done = {}});
  const auto sequence = episode->BeginCall(call, std::chrono::nanoseconds(0));
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  Flag looked;
  const auto plan = [&] {
    return episode->FindContinuation(sent, {}, "", [&](const auto&, size_t, const auto&) {
      looked.Set();
      return History::KeptPrefix();
    });
  };
  EXPECT_EQ(plan().match.parent, -1) << "it may sample for long";
  looked.WaitAndClear();
  episode->FinishCall(call, RequestKey::Of(sent_keys).key);
  EXPECT_EQ(plan().match.parent, -1) << "it was asked something else";
  looked.WaitAndClear();
  episode->FinishCall(call, RequestKey::Of(asked_keys).key);
  std::thread finisher([&] {
    looked.WaitAndClear();
    add("finished", "Yes.");
    episode->EndCall(call, *sequence, {}, std::chrono::nanoseconds(0));
  });
  const Continuation found = plan();
  EXPECT_EQ(found.match.parent, 1);
  EXPECT_EQ(found.parent_call_id, "finished");
  EXPECT_EQ(found.match.fork_cause, "");
  finisher.join();
}

TEST(Splice, DroppedTurnsContinueTheTurnBeforeThem) {
  int turn = 0;
  World world([&](const auto&) { return Say("answer " + std::to_string(turn++)); });
  const auto episode = world.Open();
  array messages = Question();
  for (int i = 0; i < 2; ++i) {
    messages.push_back(world.Chat(episode.api_key(), Body(messages)).message());
    messages.push_back(Msg("user", "go on"));
  }
  messages.erase(messages.begin() + 4, messages.end());  // the second answer and what followed
  messages[3] = Msg("user", "answer in JSON");
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[2].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[2].fork_cause(), kForkEarlierTurn);
}

// Anthropic's clients mark where the provider shall cache, and move the mark with every turn.
// A call, words before it and a thought, sent back in another order than they were sampled in.
TEST(Splice, PartsOfATurnContinueItInAnyOrder) {
  const auto sampled = [calls = std::make_shared<std::atomic<int>>(0)](const auto&) {
    return Say((*calls)++ % 2 == 0 ? "<think>\nhm\n</think>\n\nI add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": "
                                     "{\"a\": 1}}\n</tool_call>"
                                   : "Done.");
  };
  World world(sampled);
  object tool = CalculatorTools()[0].at("function").as_object();
  tool["type"] = "function";
  for (const bool with_ids : {true, false}) {
    const auto episode = world.Open();
    object body{{"input", array{Msg("user", "1+0?")}}, {"tools", array{tool}}};
    const auto first = world.Ask("responses", episode.api_key(), base::PrintJson(body));
    ASSERT_TRUE(first.status.ok()) << first.status;
    array output = first.events[0].at("output").as_array();
    ASSERT_EQ(output.size(), 3u);
    std::reverse(output.begin(), output.end());
    for (base::json::value& item : output) {
      if (!with_ids) item.as_object().erase("id");
      body["input"].as_array().push_back(item);
    }
    body["input"].as_array().push_back(
        object{{"type", "function_call_output"}, {"call_id", output[0].at("call_id")}, {"output", "1"}});
    ASSERT_TRUE(world.Ask("responses", episode.api_key(), base::PrintJson(body)).status.ok());
    const auto calls = world.pool.calls();
    EXPECT_EQ(calls.back().parent_call_id(), calls[calls.size() - 2].call_id()) << with_ids;
    EXPECT_EQ(calls.back().fork_cause(), "");
  }
  const auto episode = world.Open();
  object body = Body({Msg("user", "1+0?")});
  body["tools"] = CalculatorTools();
  const auto first = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(first.status.ok()) << first.status;
  object call = first.message().as_object();
  call["content"] = nullptr;
  array& messages = body["messages"].as_array();
  messages.push_back(Msg("assistant", "I add."));
  messages.push_back(call);
  messages.push_back(Msg("tool", "1"));
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls.back().parent_call_id(), calls[calls.size() - 2].call_id());
  EXPECT_EQ(calls.back().fork_cause(), "");
}

TEST(Splice, AMovedCacheControlChangesNothing) {
  World world([](const auto&) { return Say("It is 3."); });
  const auto episode = world.Open();
  const char* first =
      R"({"max_tokens":99,"system":[{"type":"text","text":"You add.","cache_control":{"type":"ephemeral"}}],
      "messages":[{"role":"user","content":[{"type":"text","text":"1+2?","cache_control":{"type":"ephemeral"}}]}]})";
  const char* second = R"({"max_tokens":99,"system":[{"type":"text","text":"You add."}],
      "messages":[{"role":"user","content":[{"type":"text","text":"1+2?"}]},
      {"role":"assistant","content":[{"type":"text","text":"It is 3.","cache_control":{"type":"ephemeral"}}]},
      {"role":"user","content":[{"type":"text","text":"sure?","cache_control":{"type":"ephemeral"}}]}]})";
  ASSERT_TRUE(world.Ask("messages", episode.api_key(), first).status.ok());
  ASSERT_TRUE(world.Ask("messages", episode.api_key(), second).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  EXPECT_EQ(calls[1].fork_cause(), "");
}

// ---- A template of one's own, and a tokenizer that merges across the border of turns ----

// Nothing special closes a turn: what follows an answer is text, which the tokenizer would merge with its end. It also
// prints what canonical forms pass over: the id of the call that a result answers.
constexpr char kPlainTemplate[] =
    "{%- for m in messages %}{{ m.role ~ ':' ~ (m.tool_call_id or '') ~ m.content ~ '..' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";

// Every byte of ASCII, and ".", "..", "..." as tokens of one, two and three merged.
std::shared_ptr<const text::Tokenizer> MergingTokenizer() {
  std::string vocabulary = R"("Ġ":94,"Ċ":95)";
  for (int c = 33; c < 127; ++c) {
    std::string key(1, static_cast<char>(c));
    if (c == '"' || c == '\\') key = "\\" + key;
    vocabulary += ",\"" + key + "\":" + std::to_string(c - 33);
  }
  vocabulary += R"(,"..":96,"...":97)";
  const std::string json = R"({"version":"1.0","added_tokens":[{"id":98,"content":"<|end|>","single_word":false,
      "lstrip":false,"rstrip":false,"normalized":false,"special":true}],
      "normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,
      "use_regex":false},"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,
      "trim_offsets":true,"use_regex":false},"model":{"type":"BPE","dropout":null,"unk_token":null,
      "continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,
      "ignore_merges":false,"vocab":{)" +
                           vocabulary + R"(},"merges":[". .",".. ."]}})";
  auto tokenizer = text::ParseTokenizerJson(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

struct PlainWorld : World {
  explicit PlainWorld(ScriptedEngine::Author author) : World(std::move(author)) {
    const auto tokenizer = MergingTokenizer();
    engine->tokenizer = tokenizer;
    auto chat_template = text::ChatTemplate::Make(kPlainTemplate, R"({"eos_token": "<|end|>"})", "");
    EXPECT_TRUE(chat_template.ok()) << chat_template.status();
    const auto encoder = std::make_shared<const text::MarkedEncoder>(tokenizer, (*chat_template)->source());
    auto made = text::MakeTemplateFormat(*chat_template, encoder, *text::FindOutputFormat("hermes"));
    EXPECT_TRUE(made.ok()) << made.status();
    format = *made;
  }
  std::string Text(const v1::GenerateRequest& request) const {
    return engine->tokenizer->Decode(Vec(request.prompt_ids()), false);
  }
};

TEST(Splice, TheEndOfATurnIsNotMergedWithTheTail) {
  const auto tokenizer = MergingTokenizer();
  ASSERT_EQ(tokenizer->Encode("so...", true).size(), 3u);  // s, o, ...
  PlainWorld world([&](const v1::GenerateRequest& request) {
    Script script;
    // "Hm." as the model wrote it: its full stop is a token of its own.
    script.ids = tokenizer->Encode(request.prompt_ids_size() < 30 ? "Hm." : "Done", true);
    script.finish = v1::FINISH_LENGTH;
    script.end_of_turn = false;
    return script;
  });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status.ok());
  ASSERT_TRUE(world
                  .Chat(episode.api_key(),
                        Body({Msg("user", "1+2?"), Msg("assistant", "Hm."), Msg("user", "go on, tell me more")}))
                  .status.ok());
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].parent_call_id(), calls[0].call_id());
  const auto requests = world.engine->requests();
  EXPECT_EQ(world.Text(requests[1]), "user:1+2?..assistant:Hm...user:go on, tell me more..assistant:");
  std::vector<int32_t> expected = Vec(requests[0].prompt_ids());
  for (const char* piece : {"Hm.", "..user:"}) {
    for (const int32_t id : tokenizer->Encode(piece, true)) expected.push_back(id);
  }
  const std::vector<int32_t> prompt = Vec(requests[1].prompt_ids());
  ASSERT_GT(prompt.size(), expected.size());
  EXPECT_EQ(std::vector<int32_t>(prompt.begin(), prompt.begin() + expected.size()), expected);
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), 97), 0) << "the three full stops became one token";
  EXPECT_EQ(world.pool.PromptOf(calls[1]), prompt);
}

TEST(Splice, ForksWhereTheTemplateWritesHistoryDifferently) {
  PlainWorld world([&](const v1::GenerateRequest&) {
    Script script;
    script.ids = MergingTokenizer()->Encode("Ok", true);
    script.finish = v1::FINISH_LENGTH;
    script.end_of_turn = false;
    return script;
  });
  const auto episode = world.Open();
  object result = Msg("tool", "7");
  result["tool_call_id"] = "one";
  array messages = {Msg("user", "go"), result};
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  messages.push_back(Msg("assistant", "Ok"));
  messages.push_back(Msg("user", "and?"));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  EXPECT_EQ(world.pool.calls()[1].parent_call_id(), world.pool.calls()[0].call_id());
  // The id says nothing that counts in canonical form, but this template prints it.
  messages[1].as_object()["tool_call_id"] = "two";
  messages.push_back(Msg("assistant", "Ok"));
  messages.push_back(Msg("user", "more"));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
  const auto calls = world.pool.calls();
  EXPECT_EQ(calls[2].parent_call_id(), "");
  EXPECT_EQ(calls[2].fork_cause(), kForkTemplateDiffers);
  EXPECT_EQ(world.Text(world.engine->requests()[2]),
            "user:go..tool:two7..assistant:Ok..user:and?..assistant:Ok..user:more..assistant:");
  EXPECT_EQ(world.gateway().Status().forks().at(kForkTemplateDiffers), 1);
}

// ---- What of an answer a client kept ----

text::ParsedOutput Read(std::span<const int32_t> ids) {
  TurnText turn({.tokenizer = TestTokenizer(),
                 .ends = TestFormat()->end_of_turn_ids(),
                 .format = TestFormat()->output(),
                 .reading = {.calls = text::CallMode::kText}});
  turn.Push(ids);
  turn.Finish("");
  return turn.message();
}

TEST(KeptPrefixOf, FindsTheFewestIdsOfTheKeptText) {
  const PromptPlanner planner(TestTokenizer(), TestFormat(), false);
  const auto cut = [&](const std::string& sampled, const std::string& kept, const std::string& reasoning = "") {
    text::Conversation conversation;
    for (const char* role : {"user", "assistant"}) {
      conversation.messages.push_back({});
      conversation.messages[conversation.messages.size() - 1].role = role;
    }
    conversation.messages[1].content = kept;
    conversation.messages[1].reasoning = reasoning;
    const std::vector<int32_t> ids = Encode(sampled);
    const History::KeptPrefix found = planner.KeptPrefixOf(conversation, 1, {ids, ""});
    return TestTokenizer()->Decode(std::span(ids).first(found.ids), false);
  };
  EXPECT_EQ(cut("one two three", "one two"), "one two");
  EXPECT_EQ(cut("one two three", "one two "), "one two");  // white space at the end does not count
  EXPECT_EQ(cut("one two three", "one two three"), "one two three");
  EXPECT_EQ(cut("one two three", "one too"), "");
  EXPECT_EQ(cut("one two three", ""), "");
  EXPECT_EQ(cut("<think>\nhm\n</think>\n\nIt is 3.", "It is"), "<think>\nhm\n</think>\n\nIt is");
  EXPECT_EQ(cut("\xf0\x9f\x98\x80 ok", "\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(cut("<think>\nhm\n</think>\n\nIt is 3.", "It is", "hm"), "<think>\nhm\n</think>\n\nIt is");
  EXPECT_EQ(cut("<think>\nhm\n</think>\n\nIt is 3.", "It is", "so"), "");
  EXPECT_EQ(cut("I look.\n<tool_call>\n{\"name\": \"ls\"", "I look."), "I look.");
}

// Any beginning of any answer, at any character: either exactly its ids, or none.
TEST(KeptPrefixOf, AnyPrefixIsItsIdsOrNothing) {
  const PromptPlanner planner(TestTokenizer(), TestFormat(), false);
  const std::string pieces[] = {"a",        " ",           "\n", "<",        "think>",
                                "</think>", "<tool_call>", "{",  "\xc3\xa9", "<|im_end|>"};
  uint64_t state = 7;
  const auto draw = [&state](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string sampled;
    for (uint64_t n = 1 + draw(12); n > 0; --n) sampled += pieces[draw(std::size(pieces))];
    const std::vector<int32_t> ids = Encode(sampled);
    text::Conversation conversation;
    conversation.messages.resize(2);
    conversation.messages[0].role = "user";
    conversation.messages[1].role = "assistant";
    conversation.messages[1].content = Read(std::span(ids).first(draw(ids.size() + 1))).content;
    const History::KeptPrefix kept = planner.KeptPrefixOf(conversation, 1, {ids, ""});
    ASSERT_LE(kept.ids, ids.size());
    if (kept.ids == 0) continue;
    ++found;
    const text::ParsedOutput parsed = Read(std::span(ids).first(kept.ids));
    EXPECT_EQ(TrimmedSize(parsed.content), TrimmedSize(conversation.messages[1].content)) << sampled;
    EXPECT_TRUE(parsed.tool_calls.empty());
  }
  EXPECT_GT(found, 500);
}

}  // namespace
}  // namespace ingot::gateway::splice_test
