// The numbers under which an episode's calls are rewarded: those of the calls that were recorded.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>

#include "gateway/api/api_error.h"
#include "gateway/episodes/episode.h"
#include "gateway/fakes.h"

namespace ingot::gateway::turns_test {
namespace {

using base::json::object;

Script Say(const std::string& text, bool hold = false) {
  Script script;
  script.text = text;
  script.hold = hold;
  return script;
}

absl::Status RewardTurn(World& world, const v1::EpisodeOpenResponse& episode, int turn) {
  v1::EpisodeRewardRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(episode.api_key());
  request.add_call_rewards()->set_turn(turn);
  request.mutable_call_rewards(0)->set_reward(turn + 1);
  return world.gateway().RewardEpisode(request);
}

object Ask(const std::string& what) { return Body({Msg("user", what)}); }

TEST(Turns, ACallThatWasNotRecordedHasNoNumber) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  world.pool.FailAppend(absl::UnavailableError("the pool is away"));
  EXPECT_EQ(ErrorCodeOf(world.Chat(episode.api_key(), Ask("1+2?")).status), "record_failed");
  world.pool.FailAppend(absl::OkStatus());
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), object{{"messages", "none"}}).status), 400);
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 0)), 404) << "none is recorded";
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("3+4?")).status.ok());
  EXPECT_TRUE(RewardTurn(world, episode, 0).ok());
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_TRUE(RewardTurn(world, episode, 1).ok()) << "also behind a gateway that knows the records alone";
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 2)), 404);
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, -1)), 404);
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(world.pool.calls().at(i).sequence(), i);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(stored.call_rewards().at(world.pool.calls().at(i).call_id()), i + 1);
}

std::map<std::string, double> Earned(const World& world, const v1::EpisodeOpenResponse& episode) {
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  return {stored.call_rewards().begin(), stored.call_rewards().end()};
}

// The record is there, and the pool's answer was lost. It is the pool that knows.
TEST(Turns, ANumberThatThePoolHasIsGivenToNoOtherCall) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  world.pool.LoseAnswers(1);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("3+4?")).status), 503);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("3+4?")).status), 503) << "the number is used";
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("3+4?")).status.ok());
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls.at(2).sequence(), 2);
  for (const bool restarted : {false, true}) {
    if (restarted) {
      ASSERT_TRUE(world.Restart().ok());
    }
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(RewardTurn(world, episode, i).ok()) << i;
    EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 3)), 404);
    EXPECT_EQ(Earned(world, episode), (std::map<std::string, double>{
                                          {calls[0].call_id(), 1}, {calls[1].call_id(), 2}, {calls[2].call_id(), 3}}));
  }
}

// The pool need not say what it has under a number whose call is unknown.
TEST(Turns, ARewardByAKnownIdNeedsNoOtherCall) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  const auto reward = [&](const std::string& call_id) {
    v1::EpisodeRewardRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    request.add_call_rewards()->set_call_id(call_id);
    request.mutable_call_rewards(0)->set_reward(1);
    return world.gateway().RewardEpisode(request);
  };
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  world.pool.LoseAnswers(1);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("3+4?")).status), 503);
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("3+4?")).status), 503) << "the number is used";
  const auto calls = world.pool.calls();
  ASSERT_EQ(calls.size(), 2u);
  world.pool.FailGet(episode.episode_id(), absl::UnavailableError("the pool is away"));
  EXPECT_TRUE(reward(calls[0].call_id()).ok());
  EXPECT_EQ(HttpStatusOf(reward(calls[1].call_id())), 503) << "only the pool knows it";
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 0)), 503);
  world.pool.FailGet(episode.episode_id(), absl::OkStatus());
  EXPECT_TRUE(reward(calls[1].call_id()).ok());
  EXPECT_EQ(HttpStatusOf(reward("unknown")), 404);
}

// Of two calls at the same time, "slow" is the first one.
Script SlowOrFast(const v1::GenerateRequest& request, Script slow) {
  const std::vector<int32_t> ids(request.prompt_ids().begin(), request.prompt_ids().end());
  return TestTokenizer()->Decode(ids, false).find("slow") != std::string::npos ? slow : Say("ok");
}

// Its record may be there or not, and a later call is recorded.
TEST(Turns, ALostAnswerMovesNoLaterCall) {
  for (const bool is_stored : {true, false}) {
    World world([](const v1::GenerateRequest& request) { return SlowOrFast(request, Say("at last", /*hold=*/true)); });
    const auto episode = world.Open();
    auto done = std::make_shared<Flag>();
    const auto slow = world.StartChat(episode.api_key(), Ask("slow"), [done] { done->Set(); });
    world.engine->WaitForHeld(1);
    ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
    const std::string fast = world.pool.calls().at(0).call_id();
    if (is_stored) world.pool.LoseAnswers(1);
    if (!is_stored) world.pool.FailAppend(absl::UnavailableError("the pool is away"));
    world.engine->Release();
    absl::Status failed;
    for (bool over = false; !over && done->WaitAndClear();) {
      const Answer::Output out = slow->TakeOutput();
      over = out.done;
      failed = out.status;
    }
    EXPECT_EQ(ErrorCodeOf(failed), "record_failed");
    if (!is_stored) {
      EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 1)), 503) << "nobody knows which call it is";
    }
    world.pool.FailAppend(absl::OkStatus());
    EXPECT_TRUE(RewardTurn(world, episode, 1).ok());
    EXPECT_EQ(Earned(world, episode), (std::map<std::string, double>{{fast, 2}}));
    ASSERT_TRUE(world.Restart().ok());
    EXPECT_TRUE(RewardTurn(world, episode, 1).ok());
    EXPECT_EQ(Earned(world, episode), (std::map<std::string, double>{{fast, 2}}));
    EXPECT_TRUE(RewardTurn(world, episode, 0).ok()) << "it is recorded by now";
  }
}

// The answer is lost after a reward has settled the earlier ones.
TEST(Turns, ACallIsNotNumberedWhileAnEarlierOneIsUnknown) {
  for (const bool is_stored : {true, false}) {
    base::ManualClock clock;
    v1::EpisodeLimits limits;
    limits.set_max_calls(10);
    Episode episode(v1::Episode(), limits, true, false, std::nullopt, clock.Now(), clock);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(episode.BeginCall(nullptr, clock.Now()).value(), i);
    episode.CountRecorded("fast", 1);
    const auto rewarded = [&](int turn) {
      v1::EpisodeRewardRequest posted;
      posted.add_call_rewards()->set_turn(turn);
      return episode.StartReward(posted);
    };
    EXPECT_TRUE(rewarded(1).ok()) << "a call in flight has its place";
    v1::AppendCallRequest lost;
    lost.mutable_call()->set_call_id("slow");
    episode.EndCall(nullptr, 0, {.lost = lost}, clock.Now());
    for (int i = 0; i < 2; ++i) EXPECT_EQ(HttpStatusOf(rewarded(i).status()), 503) << i;
    episode.SettleAppend(lost.call(), is_stored ? absl::OkStatus() : absl::NotFoundError("none"));
    const auto fast = rewarded(is_stored ? 1 : 0);
    ASSERT_TRUE(fast.ok()) << fast.status();
    EXPECT_TRUE(fast->call_rewards().contains("fast"));
    if (is_stored) {
      EXPECT_TRUE(rewarded(0)->call_rewards().contains("slow"));
    }
    EXPECT_EQ(HttpStatusOf(rewarded(is_stored ? 2 : 1).status()), 404);
  }
}

// The reward waits for the pool, and its client has gone away and posts another.
TEST(Turns, ARewardThatWaitsForALostCallReplacesNoLaterOne) {
  World world([](const v1::GenerateRequest& request) { return SlowOrFast(request, Say("at last", /*hold=*/true)); });
  const auto episode = world.Open();
  auto done = std::make_shared<Flag>();
  const auto slow = world.StartChat(episode.api_key(), Ask("slow"), [done] { done->Set(); });
  world.engine->WaitForHeld(1);
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  const std::string fast = world.pool.calls().at(0).call_id();
  world.pool.FailAppend(absl::UnavailableError("the pool is away"));
  world.engine->Release();
  while (!slow->TakeOutput().done && done->WaitAndClear()) {
  }
  world.pool.FailAppend(absl::OkStatus());
  world.pool.CloseGate(true);
  auto given_up = std::async(std::launch::async, [&] {
    v1::EpisodeRewardRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    request.set_reward(0.25);
    request.add_call_rewards()->set_turn(1);
    request.mutable_call_rewards(0)->set_reward(2);
    return world.gateway().RewardEpisode(request);
  });
  world.pool.WaitForAppend();
  auto later = std::async(std::launch::async, [&] { return world.Reward(episode, 0.75); });
  EXPECT_EQ(later.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout) << "it has the later turn";
  world.pool.CloseGate(false);
  const absl::Status first = given_up.get(), second = later.get();
  EXPECT_TRUE(first.ok()) << first;
  EXPECT_TRUE(second.ok()) << second;
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0.75);
  EXPECT_EQ(Earned(world, episode), (std::map<std::string, double>{{fast, 2}}));
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0.75);
}

// It waits for its turn, its client goes away, and may have posted another one by the time the turn comes.
TEST(Turns, ARewardWhoseClientHasGoneIsNotStored) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  v1::EpisodeRewardRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(episode.api_key());
  request.set_reward(0.5);
  std::atomic<bool> gone = false;
  EXPECT_TRUE(world.gateway().RewardEpisode(request, [&] { return gone.load(); }).ok());
  world.pool.CloseRewardGate(true);
  auto first = std::async(std::launch::async, [&] { return world.Reward(episode, 0.75); });
  world.pool.WaitForReward();
  auto late = std::async(std::launch::async,
                         [&] { return world.gateway().RewardEpisode(request, [&] { return gone.load(); }); });
  world.clock.AwaitWaiters(1);
  gone = true;
  world.pool.CloseRewardGate(false);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(absl::IsCancelled(late.get()));
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0.75);
}

// Its client posts it again: an error on the way has not kept the turn.
TEST(Turns, ARewardThatFailsKeepsNoTurn) {
  World world([](const auto&) { return Say("ok"); });
  world.options.end_wait_s = 1e-12;  // a reward that finds a turn taken fails at once
  const auto episode = world.Open();
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 0)), 404) << "none is recorded";
  ASSERT_TRUE(world.Reward(episode, 0).ok());
  world.pool.FailReward(absl::UnavailableError("the pool is away"));
  EXPECT_EQ(HttpStatusOf(world.Reward(episode, 0.25)), 503);
  world.pool.FailReward(absl::OkStatus());
  ASSERT_TRUE(world.Reward(episode, 0.5).ok());
  v1::EpisodeRewardRequest request;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(episode.api_key());
  request.set_reward(0.25);
  EXPECT_TRUE(absl::IsCancelled(world.gateway().RewardEpisode(request, [] { return true; })));
  ASSERT_TRUE(world.Reward(episode, 0.75).ok());
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0.75);
}

TEST(Turns, ACallInFlightHoldsItsPlaceUntilItFails) {
  World world([](const v1::GenerateRequest& request) {
    Script slow = Say("", /*hold=*/true);
    slow.error = absl::UnavailableError("the engine is gone");
    slow.end_of_turn = false;
    return SlowOrFast(request, slow);
  });
  const auto episode = world.Open();
  auto done = std::make_shared<Flag>();
  const auto slow = world.StartChat(episode.api_key(), Ask("slow"), [done] { done->Set(); });
  world.engine->WaitForHeld(1);
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 0)), 404);
  EXPECT_TRUE(RewardTurn(world, episode, 1).ok());
  world.engine->Release();
  while (!slow->TakeOutput().done && done->WaitAndClear()) {
  }
  EXPECT_TRUE(RewardTurn(world, episode, 0).ok());
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 1)), 404);
}

TEST(Turns, ALimitCountsRecordedCalls) {
  World world([](const auto&) { return Say("ok"); });
  world.options.max_calls_per_episode = 1;
  const auto episode = world.Open();
  world.pool.FailAppend(absl::UnavailableError("the pool is away"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("1+2?")).status), 503);
  world.pool.FailAppend(absl::OkStatus());
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("1+2?")).status), 400);
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("1+2?")).status), 400);
}

}  // namespace
}  // namespace ingot::gateway::turns_test
