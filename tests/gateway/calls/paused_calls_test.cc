// Calls in slices: the client sees one answer, each slice is recorded when it ends, and any engine continues.
#include <gtest/gtest.h>

#include "gateway/fakes.h"
#include "gateway/prompt/generation.h"

namespace ingot::gateway::paused_calls_test {
namespace {

using base::json::array;
using base::json::object;

constexpr char kAnswer[] = "an answer in slices";  // 19 ids, and the end of the turn

array Question() { return {Msg("user", "hi")}; }

Script Slices(const std::string& text, int slice) {
  Script script;
  script.text = text;
  script.slice = slice;
  return script;
}

std::vector<int32_t> Encode(const std::string& text) { return TestTokenizer()->Encode(text, true); }
std::vector<int32_t> IdsOf(const auto& field) { return {field.begin(), field.end()}; }

std::vector<int> SlicesOf(const MemoryPool& pool, const v1::Call& call) {
  std::vector<int> sizes;
  for (const std::string& key : call.sampled_keys()) sizes.push_back(pool.segment(key).token_ids_size());
  return sizes;
}

std::string TextOf(const World::Outcome& outcome) {
  std::string text;
  for (const base::json::value& event : outcome.events) {
    const base::json::value* content = base::Find(event.at("choices").at(0).at("delta"), "content");
    if (content != nullptr) text += content->as_string();
  }
  return text;
}

TEST(PausedCall, IsOneAnswerAndOneCallWithASegmentPerSlice) {
  World world([](const auto&) { return Slices(kAnswer, 8); });
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.message().at("content"), kAnswer);
  ASSERT_EQ(world.pool.calls().size(), 1u);
  const v1::Call call = world.pool.calls()[0];
  EXPECT_EQ(call.finish(), v1::FINISH_STOP);
  EXPECT_EQ(SlicesOf(world.pool, call), (std::vector<int>{8, 8, 4}));
  EXPECT_EQ(world.pool.Ids(call.sampled_keys()), Encode(std::string(kAnswer) + "<|im_end|>"));
  EXPECT_EQ(call.delivered_tokens(), 20);
  EXPECT_EQ(call.cached_tokens(), 0) << "of the first slice, whose last chunk has none";
  EXPECT_EQ(world.pool.replaced(), 2);
  // The versions of ids 8 to 15 (scripted_engine.h: the version changes after 4 ids).
  const v1::Segment second = world.pool.segment(call.sampled_keys(1));
  int32_t covered = 0;
  for (const v1::VersionRun& run : second.versions()) covered += run.count();
  EXPECT_EQ(covered, 8);
  EXPECT_EQ(second.logprobs(0), -(1 + second.token_ids(0) % 7) / 8.0f);
  const std::string metrics = world.gateway().MetricsText();
  EXPECT_NE(metrics.find("ingot_gateway_paused_calls_total 2"), std::string::npos);
  EXPECT_NE(metrics.find("ingot_gateway_slice_failures_total 0"), std::string::npos);
}

TEST(PausedCall, AsksForTheRestWithAllThatWasSampled) {
  World world([](const auto&) { return Slices(kAnswer, 8); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  const auto requests = world.engine->requests();
  ASSERT_EQ(requests.size(), 3u);
  const std::vector<int32_t> ids = Encode(kAnswer);
  for (size_t i = 0; i < 3; ++i) {
    v1::GenerateRequest request = requests[i];
    const int first = static_cast<int>(8 * i);
    EXPECT_TRUE(request.may_pause());
    EXPECT_EQ(request.first_index(), first);
    ASSERT_EQ(request.first_logprobs_size(), first);
    for (int j = 0; j < first; ++j) EXPECT_EQ(request.first_logprobs(j), -(1 + ids[static_cast<size_t>(j)] % 7) / 8.0f);
    EXPECT_EQ(request.has_paused_version(), i > 0);
    if (i > 0) {
      EXPECT_EQ(request.paused_version(), (first - 1) / 4) << "the version of the last id";
    }
    std::vector<int32_t> prompt = IdsOf(requests[0].prompt_ids());
    prompt.insert(prompt.end(), ids.begin(), ids.begin() + first);
    EXPECT_EQ(IdsOf(request.prompt_ids()), prompt);
    request.clear_prompt_ids();
    request.clear_first_index();
    request.clear_first_logprobs();
    request.clear_paused_version();
    v1::GenerateRequest same = requests[0];
    same.clear_prompt_ids();
    EXPECT_EQ(request.SerializeAsString(), same.SerializeAsString()) << "the same seed, limits, and min_version";
  }
}

TEST(PausedCall, KeepsTheClientsStreamOpen) {
  for (const bool inline_chunks : {false, true}) {
    World world([](const auto&) { return Slices(kAnswer, 1); });
    world.engine->inline_chunks = inline_chunks;
    const auto episode = world.Open();
    object body = Body(Question());
    body["stream"] = true;
    const auto outcome = world.Chat(episode.api_key(), body);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(TextOf(outcome), kAnswer);
    EXPECT_EQ(SlicesOf(world.pool, world.pool.calls().at(0)), std::vector<int>(20, 1));
  }
}

// The engine goes away in the second slice, with ids that the client does not have yet: those of the first slice are
// recorded and stay, and the others are verified as drafts.
TEST(PausedCall, KeepsItsSlicesIfItsEngineIsLost) {
  std::atomic<int> asked{0};
  World world([&](const auto&) {
    Script script = Slices(kAnswer, 8);
    if (++asked != 2) return script;
    script.text = "an answer in o";
    script.slice = 0;
    script.end_of_turn = false;
    script.error = absl::UnavailableError("the engine is gone");
    return script;
  });
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.message().at("content"), kAnswer);
  const auto requests = world.engine->requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[2].first_index(), 8);
  EXPECT_EQ(requests[2].first_logprobs_size(), 8);
  EXPECT_EQ(IdsOf(requests[2].draft_ids()), Encode("r in o")) << "8 of 14 ids are kept";
  EXPECT_FALSE(requests[2].has_paused_version()) << "it does not wait again";
  EXPECT_EQ(SlicesOf(world.pool, world.pool.calls().at(0)), (std::vector<int>{8, 8, 4}));
}

TEST(PausedCall, IsRecordedWholeIfThePoolTookNoSlice) {
  World world([](const auto&) {
    Script script = Slices(kAnswer, 8);
    script.hold = true;  // the last slice
    return script;
  });
  const auto episode = world.Open();
  world.gateway();
  world.pool.FailAppend(absl::UnavailableError("the pool is away"));
  auto flag = std::make_shared<Flag>();
  const auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  EXPECT_TRUE(world.pool.calls().empty());
  world.pool.FailAppend(absl::OkStatus());
  world.engine->Release();
  while (!call->TakeOutput().done) flag->WaitAndClear();
  ASSERT_EQ(world.pool.calls().size(), 1u);
  EXPECT_EQ(SlicesOf(world.pool, world.pool.calls()[0]), (std::vector<int>{8, 8, 4}));
  EXPECT_NE(world.gateway().MetricsText().find("ingot_gateway_slice_failures_total 2"), std::string::npos);
}

// The client goes away while a slice is being recorded: the call ends with that slice, and no engine is asked again.
TEST(PausedCall, EndsWhileItsSliceIsBeingRecorded) {
  World world([](const auto&) { return Slices(kAnswer, 8); });
  const auto episode = world.Open();
  world.gateway();
  world.pool.CloseGate(true);
  auto flag = std::make_shared<Flag>();
  const auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.pool.WaitForAppend();
  call->Abort(absl::CancelledError("the client went away"));
  world.pool.CloseGate(false);
  while (!call->TakeOutput().done) flag->WaitAndClear();
  EXPECT_EQ(world.engine->requests().size(), 1u);
  ASSERT_EQ(world.pool.calls().size(), 1u);
  EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_ABORTED);
  EXPECT_EQ(SlicesOf(world.pool, world.pool.calls()[0]), (std::vector<int>{8}));
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FAILED).ok());
}

// The end of the episode comes while a slice is being recorded; it waits for that and records the call once.
TEST(PausedCall, EndsWithItsEpisode) {
  World world([](const auto&) { return Slices(kAnswer, 8); });
  const auto episode = world.Open();
  world.gateway();
  world.pool.CloseGate(true);
  auto flag = std::make_shared<Flag>();
  const auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.pool.WaitForAppend();
  std::thread end([&] { EXPECT_TRUE(world.End(episode, v1::EPISODE_FAILED).ok()); });
  while (!call->TakeOutput().done) {
    world.pool.CloseGate(false);
    flag->WaitAndClear();
  }
  end.join();
  ASSERT_EQ(world.pool.calls().size(), 1u);
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_FAILED);
}

TEST(PausedCall, ItsRecordOutlivesItsGateway) {
  std::atomic<int> asked{0};
  World world([&](const auto&) {
    Script script = Slices(kAnswer, ++asked == 1 ? 8 : 0);
    script.hold = asked == 2;
    return script;
  });
  const auto episode = world.Open();
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  // What the pool has if the gateway is killed now.
  ASSERT_EQ(world.pool.calls().size(), 1u);
  EXPECT_EQ(world.pool.calls()[0].finish(), v1::FINISH_PAUSED);
  EXPECT_EQ(world.pool.Ids(world.pool.calls()[0].sampled_keys()), Encode("an answe"));
  v1::GetEpisodeRequest get;
  get.set_episode_id(episode.episode_id());
  EXPECT_EQ(world.pool.GetEpisode(get)->calls(0).asked_key(), "") << "no later call continues it";
  call->Abort(absl::CancelledError("the client went away"));
  while (!call->TakeOutput().done) flag->WaitAndClear();
}

TEST(PausedCall, NeedsProgress) {
  World world([](const auto&) {
    Script script = Slices("", 0);
    script.end_of_turn = false;
    script.finish = v1::FINISH_PAUSED;
    return script;
  });
  const auto episode = world.Open();
  const auto outcome = world.Chat(episode.api_key(), Body(Question()));
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_NE(std::string(outcome.status.message()).find("paused the call before it sampled"), std::string::npos)
      << outcome.status;
  EXPECT_EQ(world.engine->requests().size(), 1u);
}

// ---- Later calls

std::vector<int32_t> PromptBytes(World& world, size_t request) {
  return IdsOf(world.engine->requests().at(request).prompt_ids());
}

TEST(PausedCall, TheNextTurnContinuesItsIds) {
  std::atomic<int> asked{0};
  World world([&](const auto&) { return Slices(asked++ < 3 ? kAnswer : "Done.", asked <= 3 ? 8 : 0); });
  const auto episode = world.Open();
  const auto first = world.Chat(episode.api_key(), Body(Question()));
  ASSERT_TRUE(first.status.ok()) << first.status;
  for (const bool restarted : {false, true}) {
    if (restarted) {
      ASSERT_TRUE(world.Restart().ok());
    }
    array messages = Question();
    messages.push_back(first.message());
    messages.push_back(Msg("user", restarted ? "and on" : "go on"));
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
    const v1::Call call = world.pool.calls().at(restarted ? 2 : 1);
    EXPECT_EQ(call.parent_call_id(), world.pool.calls()[0].call_id());
    EXPECT_EQ(call.continued_segments(), 3);
    EXPECT_EQ(world.pool.PromptOf(call), PromptBytes(world, restarted ? 4 : 3));
  }
}

// The client kept a part of the stream that ends in the second slice, or with the first: the record of the next call
// names whole slices, and repeats only the part of a slice.
TEST(PausedCall, ARequestContinuesThePrefixThatItsClientKept) {
  for (const auto& [kept, whole_slices, part] :
       {std::tuple{"an answer in", 1, 4}, std::tuple{"an answe", 1, 0}, std::tuple{"an an", 0, 5}}) {
    std::atomic<int> asked{0};
    World world([&](const auto&) {
      Script script = Slices(asked++ < 3 ? kAnswer : "Done.", asked <= 3 ? 8 : 0);
      script.hold = asked == 3;
      script.end_of_turn = asked > 3;
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
    call->Abort(absl::CancelledError("the client went away"));
    while (!call->TakeOutput().done) flag->WaitAndClear();
    array messages = Question();
    messages.push_back(Msg("assistant", kept));
    messages.push_back(Msg("user", "go on"));
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(messages)).status.ok());
    const v1::Call next = world.pool.calls().at(1);
    EXPECT_EQ(next.parent_call_id(), world.pool.calls()[0].call_id()) << kept;
    EXPECT_EQ(next.continued_segments(), whole_slices) << kept;
    EXPECT_EQ(next.context_keys_size(), part > 0 ? 2 : 1) << kept;
    if (part > 0) {
      EXPECT_EQ(world.pool.segment(next.context_keys(0)).token_ids_size(), part) << kept;
    }
    EXPECT_EQ(world.pool.PromptOf(next), PromptBytes(world, 3)) << kept;
  }
}

TEST(PartOf, KeepsWhatBelongsToTheIds) {
  v1::Segment segment;
  segment.set_source(v1::SOURCE_SAMPLED);
  for (int i = 0; i < 6; ++i) {
    segment.add_token_ids(i);
    segment.add_logprobs(static_cast<float>(-i));
    segment.mutable_routes()->append(2, static_cast<char>('a' + i));
    for (int j = 0; j < 2; ++j) {
      segment.add_alternative_ids(10 * i + j);
      segment.add_alternative_logprobs(static_cast<float>(-10 * i - j));
    }
  }
  for (const auto& [version, count] : {std::pair{1, 2}, std::pair{2, 3}, std::pair{3, 1}}) {
    v1::VersionRun* run = segment.add_versions();
    run->set_version(version);
    run->set_count(count);
  }
  const v1::Segment part = PartOf(segment, 1, 3);
  EXPECT_EQ(IdsOf(part.token_ids()), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(part.logprobs(2), -3);
  EXPECT_EQ(part.routes(), "bbccdd");
  EXPECT_EQ(IdsOf(part.alternative_ids()), (std::vector<int32_t>{10, 11, 20, 21, 30, 31}));
  ASSERT_EQ(part.versions_size(), 2);
  EXPECT_EQ(part.versions(0).count(), 1);
  EXPECT_EQ(part.versions(1).version(), 2);
  EXPECT_EQ(part.versions(1).count(), 2);
  EXPECT_EQ(PartOf(segment, 5, 1).versions(0).version(), 3);
}

}  // namespace
}  // namespace ingot::gateway::paused_calls_test
