// The life of an episode through its API: its opening, its limits, and the keys that may reward and end it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/hostile_text.h"
#include "base/printable.h"
#include "base/random.h"
#include "gateway/api/api_error.h"
#include "gateway/episodes/episode.h"
#include "gateway/episodes/episode_request.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;

Script Say(std::string text) {
  Script script;
  script.text = std::move(text);
  return script;
}
array Question() { return {Msg("user", "1+2?")}; }

v1::EpisodeOpenRequest OpenFrom(const std::string& json) {
  v1::EpisodeOpenRequest request;
  const absl::Status read = ReadOpen(base::ParseJson(json).value(), base::JsonText(json), request);
  EXPECT_TRUE(read.ok()) << read;
  return request;
}

v1::EpisodeRewardRequest RewardFrom(const v1::EpisodeOpenResponse& episode, const std::string& json) {
  v1::EpisodeRewardRequest request;
  const absl::Status read = ReadReward(base::ParseJson(json).value(), request);
  EXPECT_TRUE(read.ok()) << json << read;
  request.set_episode_id(episode.episode_id());
  request.set_api_key(episode.api_key());
  return request;
}

// ---- Refusals ----

// A request that is refused for its temperature.
base::json::object TooHot() {
  base::json::object body = Body(Question());
  body["temperature"] = "hot\n";
  return body;
}

TEST(Rejections, TheLastOneStandsBesideTheEpisodesFailure) {
  World world([](const auto&) { return Say("ok"); });
  world.engine->context_length = 20;
  const auto episode = world.Open();
  ASSERT_EQ(HttpStatusOf(world.Chat(episode.api_key(), TooHot()).status), 400);
  ASSERT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body({Msg("user", std::string(500, 'x'))})).status), 400);
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode.episode_id());
  end.set_api_key(episode.api_key());
  end.set_state(v1::EPISODE_FAILED);
  end.set_detail("crash: the agent exited with 1");
  for (int again = 0; again < 3; ++again) {
    const auto ended = world.gateway().EndEpisode(end);
    ASSERT_TRUE(ended.ok()) << ended.status();
    if (again == 2) break;  // the gateway that refused is gone
    EXPECT_THAT(ended->last_rejection(), testing::StartsWith("400 context_length_exceeded: "));
    EXPECT_THAT(ended->last_rejection(), testing::Not(testing::HasSubstr("temperature"))) << "an earlier one";
    if (again == 1) {
      ASSERT_TRUE(world.Restart().ok());
    }
  }
  const std::string words =
      "crash: the agent exited with 1; the gateway's last rejection: 400 context_length_exceeded: ";
  EXPECT_THAT(world.pool.episode(episode.episode_id()).detail(), testing::StartsWith(words));
  EXPECT_THAT(world.admission.ended().at(0).detail(), testing::StartsWith(words));
}

TEST(Rejections, AnEarlierOneSaysHowManyRequestsWereAnsweredSince) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), TooHot()).status), 400);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FAILED, "crash").ok());
  const std::string detail = world.pool.episode(episode.episode_id()).detail();
  EXPECT_THAT(detail, testing::StartsWith("crash; the gateway's last rejection: 400: "));
  EXPECT_THAT(detail, testing::HasSubstr("(later requests that were answered: 2)"));
}

TEST(Rejections, WithoutOneTheDetailIsTheEndersOwn) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FAILED, "crash").ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).detail(), "crash");
}

TEST(Rejections, AdmissionLearnsWhetherAnyAgentGotAsFarAsACall) {
  World world([](const auto&) { return Say("ok"); });
  const auto silent = world.Open(), rejected = world.Open(), calls = world.Open(), later = world.Open();
  ASSERT_TRUE(world.End(silent, v1::EPISODE_FAILED).ok());
  ASSERT_EQ(HttpStatusOf(world.Chat(rejected.api_key(), TooHot()).status), 400);
  ASSERT_TRUE(world.End(rejected, v1::EPISODE_FAILED).ok());
  ASSERT_TRUE(world.Chat(calls.api_key(), Body(Question())).status.ok());
  ASSERT_TRUE(world.End(later, v1::EPISODE_FAILED).ok());
  const auto ended = world.admission.ended();
  ASSERT_EQ(ended.size(), 3u);
  EXPECT_TRUE(ended[0].before_first_call());
  EXPECT_TRUE(ended[1].before_first_call());
  EXPECT_FALSE(ended[2].before_first_call());
}

TEST(Rejections, AdmissionLearnsWhoseFailureItIsAndWhy) {
  World world([](const auto&) { return Say("ok"); });
  const auto end_of = [](const v1::EpisodeOpenResponse& episode, v1::EpisodeState state, const std::string& cause) {
    v1::EpisodeEndRequest end;
    end.set_episode_id(episode.episode_id());
    end.set_api_key(episode.api_key());
    end.set_state(state);
    end.set_cause(cause);
    return end;
  };
  for (const auto& [state, cause] : {std::pair(v1::EPISODE_INFRASTRUCTURE_FAILED, "verifier"),
                                     {v1::EPISODE_FAILED, "crash"},
                                     {v1::EPISODE_FENCED, "stopped"}}) {
    EXPECT_TRUE(world.gateway().EndEpisode(end_of(world.Open(), state, cause)).ok());
  }
  const auto again = world.Open();  // an end that the gateway tries again by itself says the same
  world.admission.FailEnded(absl::UnavailableError("it restarts"));
  EXPECT_FALSE(world.gateway().EndEpisode(end_of(again, v1::EPISODE_INFRASTRUCTURE_FAILED, "setup")).ok());
  world.admission.FailEnded(absl::OkStatus());
  world.gateway().Tick();
  while (world.gateway().Status().open_episodes() != 0) std::this_thread::yield();
  const auto ended = world.admission.ended();
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(ended[0].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(ended[0].cause(), "verifier");
  EXPECT_EQ(ended[1].state(), v1::EPISODE_FAILED);
  EXPECT_EQ(ended[1].cause(), "crash");
  EXPECT_EQ(ended[2].state(), v1::EPISODE_FENCED);
  EXPECT_EQ(ended[3].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(ended[3].cause(), "setup");
}

// ---- Times ----

TEST(Times, AWallClockThatIsSetBackChangesNoDuration) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  world.clock.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  world.wall.SetWall(-std::chrono::hours(2));
  world.clock.Advance(std::chrono::seconds(3));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "again")})).status.ok());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FAILED).ok());
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  EXPECT_EQ(stored.ended_unix_ns() - stored.opened_unix_ns(), 4'000'000'000);
  int64_t before = stored.opened_unix_ns();
  for (const v1::Call& call : world.pool.calls()) {
    for (const int64_t time : {call.times().arrival_unix_ns(), call.times().queued_unix_ns(),
                               call.times().first_token_unix_ns(), call.times().end_unix_ns()}) {
      EXPECT_GE(time, before);
      before = time;
    }
  }
  EXPECT_LE(before, stored.ended_unix_ns());
}

TEST(Times, OfAnEngineWithAnotherClockCountFromTheCallsArrivalThere) {
  Generation generation;
  generation.times.set_queued_unix_ns(1000);
  v1::GenerateChunk chunk;
  chunk.set_finish(v1::FINISH_STOP);
  chunk.mutable_times()->set_queued_unix_ns(7'200'000'000'000);
  chunk.mutable_times()->set_first_token_unix_ns(7'200'000'000'005);
  chunk.mutable_times()->set_end_unix_ns(7'200'000'000'020);
  ASSERT_TRUE(generation.Append(chunk, 1030).ok());
  EXPECT_EQ(generation.times.first_token_unix_ns(), 1005);
  EXPECT_EQ(generation.times.end_unix_ns(), 1020);
}

// ---- Alternatives ----

v1::GenerateChunk WithAlternatives(std::vector<int32_t> ids, int each) {
  v1::GenerateChunk chunk;
  for (const int32_t id : ids) {
    chunk.add_token_ids(id);
    chunk.add_logprobs(-1);
    for (int k = 0; k < each; ++k) {
      chunk.add_alternative_ids(10 * id + k);
      chunk.add_alternative_logprobs(-1.0f - static_cast<float>(k));
    }
  }
  v1::VersionRun& run = *chunk.add_versions();
  run.set_version(1);
  run.set_count(chunk.token_ids_size());
  return chunk;
}

TEST(Alternatives, OfAllChunksAreRecordedAndCutWithTheirIds) {
  Generation generation;
  ASSERT_TRUE(generation.Append(WithAlternatives({1, 2}, 2), 1).ok());
  ASSERT_TRUE(generation.Append(WithAlternatives({3}, 2), 2).ok());
  EXPECT_THAT(generation.segment.alternative_ids(), testing::ElementsAre(10, 11, 20, 21, 30, 31));
  generation.StopAfter(2);
  EXPECT_THAT(generation.segment.alternative_ids(), testing::ElementsAre(10, 11, 20, 21));
  EXPECT_THAT(generation.segment.alternative_logprobs(), testing::ElementsAre(-1, -2, -1, -2));
}

TEST(Alternatives, ThatDoNotFitTheIdsEndTheCall) {
  Generation generation;
  ASSERT_TRUE(generation.Append(WithAlternatives({1, 2}, 2), 1).ok());
  v1::GenerateChunk torn = WithAlternatives({3, 4}, 2);
  torn.mutable_alternative_ids()->RemoveLast();
  for (const v1::GenerateChunk& chunk : {torn, WithAlternatives({3}, 1), WithAlternatives({3}, 0)}) {
    EXPECT_EQ(generation.Append(chunk, 2).code(), absl::StatusCode::kInternal);
    EXPECT_EQ(generation.size(), 2);
  }
}

// ---- Rewards ----

TEST(Rewards, OfSingleCallsAreStoredWithTheEnd) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  std::vector<std::string> replies;
  for (int i = 0; i < 3; ++i) {
    const auto reply = world.Chat(episode.api_key(), Body({Msg("user", std::to_string(i))}));
    ASSERT_TRUE(reply.status.ok());
    replies.emplace_back(reply.events[0].at("id").as_string());
  }
  const auto reward = [&](const std::string& json) { return world.gateway().RewardEpisode(RewardFrom(episode, json)); };
  ASSERT_TRUE(reward(R"({"turn":0,"reward":0.25})").ok());
  ASSERT_TRUE(reward(R"({"call_id":")" + replies[1] + R"(","reward":9})").ok());  // as the reply names it
  ASSERT_TRUE(reward(R"({"calls":[{"turn":1,"reward":-1},{"call_id":")" + world.pool.calls()[2].call_id() +
                     R"(","reward":0.5}],"reward":2,"signals":{"style":1}})")
                  .ok());  // the last of a call wins
  // Nothing of it counts if one part cannot.
  EXPECT_EQ(HttpStatusOf(reward(R"({"calls":[{"turn":0,"reward":7},{"turn":3,"reward":7}],"reward":7})")), 404);
  EXPECT_EQ(HttpStatusOf(reward(R"({"call_id":"chatcmpl-of-another-episode","reward":1})")), 404);
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());

  const auto calls = world.pool.calls();
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  EXPECT_EQ(stored.reward(), 2);
  EXPECT_EQ(stored.signals().at("style"), 1);
  ASSERT_EQ(stored.call_rewards().size(), 3u);
  EXPECT_EQ(stored.call_rewards().at(calls[0].call_id()), 0.25);
  EXPECT_EQ(stored.call_rewards().at(calls[1].call_id()), -1);
  EXPECT_EQ(stored.call_rewards().at(calls[2].call_id()), 0.5);
  EXPECT_EQ(world.admission.ended().at(0).reward(), 1.75) << "what the scheduler compares is the whole return";
  EXPECT_EQ(HttpStatusOf(reward(R"({"turn":0,"reward":1})")), 410) << "it is sealed";
}

TEST(Rewards, ComeWithFactsOfAnyJson) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  const auto post = [&](const std::string& json) { return world.gateway().RewardEpisode(RewardFrom(episode, json)); };
  ASSERT_TRUE(post(R"({"facts":{"stages":[{"main":1,"sub":[3,5]}],"seen":["a"]}})").ok());
  ASSERT_TRUE(post(R"({"reward":1,"facts":{"seen":["a","b"]}})").ok()) << "a fact that is posted again replaces itself";
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  ASSERT_EQ(stored.facts_size(), 2);
  EXPECT_EQ(stored.facts().at("stages"), R"([{"main":1,"sub":[3,5]}])");
  EXPECT_EQ(stored.facts().at("seen"), R"(["a","b"])");
}

TEST(Rewards, RejectFactsThatAreNoJsonTooManyOrTooLarge) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  const auto post = [&](const std::map<std::string, std::string>& facts) {
    v1::EpisodeRewardRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(episode.api_key());
    request.mutable_facts()->insert(facts.begin(), facts.end());
    return world.gateway().RewardEpisode(request);
  };
  EXPECT_THAT(std::string(post({{"seen", "[1,"}}).message()), ::testing::HasSubstr("fact 'seen' is not JSON"));
  EXPECT_EQ(HttpStatusOf(post({{"a\n", "1"}})), 400);
  EXPECT_EQ(HttpStatusOf(post({{"", "1"}})), 400);
  const std::string large = '"' + std::string(200000, 'x') + '"';
  EXPECT_TRUE(post({{"a", large}}).ok());
  EXPECT_TRUE(post({{"a", large}}).ok()) << "it replaces itself";
  EXPECT_EQ(HttpStatusOf(post({{"b", large}})), 400);
  std::map<std::string, std::string> many;
  for (int i = 0; i < 64; ++i) many[std::to_string(i)] = "1";
  EXPECT_EQ(HttpStatusOf(post(many)), 400) << "with 'a' these are 65";
}

TEST(Rewards, AreStoredBeforeTheyAreAcknowledged) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  const auto reward = [&](const std::string& json) { return world.gateway().RewardEpisode(RewardFrom(episode, json)); };
  const auto stored = [&] { return world.pool.episode(episode.episode_id()); };
  ASSERT_TRUE(reward(R"({"reward":0.5,"calls":[{"turn":0,"reward":2}],"signals":{"style":1}})").ok());
  EXPECT_EQ(stored().state(), v1::EPISODE_OPEN);
  EXPECT_EQ(stored().reward(), 0.5);
  EXPECT_EQ(stored().signals().at("style"), 1);
  EXPECT_EQ(stored().call_rewards().at(world.pool.calls()[0].call_id()), 2);
  // A reward that could not be stored counts neither in the gateway nor in the pool.
  world.pool.FailReward(absl::UnavailableError("disk full"));
  EXPECT_EQ(HttpStatusOf(reward(R"({"reward":9})")), 503);
  world.pool.FailReward(absl::OkStatus());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(stored().reward(), 0.5);
  EXPECT_EQ(world.admission.ended().at(0).reward(), 2.5);
}

TEST(Rewards, AnEndWaitsForAPostThatIsBeingStored) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Reward(episode, 0.25).ok());
  world.pool.CloseRewardGate(true);
  std::thread poster([&] { EXPECT_TRUE(world.Reward(episode, 1).ok()); });
  world.pool.WaitForReward();
  // Without the wait the end would miss the reward that is being acknowledged.
  const auto past_the_wait = [&](const std::function<absl::Status()>& call) {
    auto answer = std::async(std::launch::async, call);
    world.clock.AwaitWaiters(1);
    world.clock.Advance(base::FromSeconds(world.options.end_wait_s));
    return answer.get();
  };
  EXPECT_TRUE(absl::IsDeadlineExceeded(past_the_wait([&] { return world.End(episode, v1::EPISODE_FINISHED); })));
  EXPECT_TRUE(absl::IsDeadlineExceeded(past_the_wait([&] { return world.Reward(episode, 2); })))
      << "one post after the other";
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_OPEN);
  world.pool.CloseRewardGate(false);
  poster.join();
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 1);
}

// A client gives a reward up that waits, and posts another one, which waits too.
TEST(Rewards, AreStoredInTheOrderInWhichTheyCame) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  world.pool.CloseRewardGate(true);
  constexpr int kPosts = 12;
  std::vector<std::thread> posters;
  for (int i = 0; i < kPosts; ++i) {
    posters.emplace_back([&, i] { EXPECT_TRUE(world.Reward(episode, i).ok()); });
    if (i == 0) world.pool.WaitForReward();
    if (i > 0) world.clock.AwaitWaiters(i);
  }
  world.pool.CloseRewardGate(false);
  for (std::thread& poster : posters) poster.join();
  std::vector<double> stored, came;
  for (const auto& reward : world.pool.rewards()) stored.push_back(reward.reward());
  for (int i = 0; i < kPosts; ++i) came.push_back(i);
  EXPECT_EQ(stored, came);
}

// Stands still, and holds the first thread that waited back once it is woken.
class HoldingClock final : public base::Clock {
 public:
  std::chrono::nanoseconds Now() const override { return clock_.Now(); }
  int64_t UnixNanos() const override { return clock_.UnixNanos(); }
  bool WaitUntil(base::CondVar& changed, base::Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const bool is_first = waits_++ == 0;
    const bool in_time = clock_.WaitUntil(changed, mu, deadline);
    if (!is_first) return in_time;
    mu.Unlock();
    released_.wait(false);
    mu.Lock();
    return in_time;
  }
  int waits() const { return waits_; }  // begun so far
  void Release() {
    released_ = true;
    released_.notify_all();
  }
  // Wakes all that wait.
  void Advance() { clock_.Advance(std::chrono::hours(2)); }

 private:
  base::ManualClock clock_;
  mutable std::atomic<int> waits_{0};
  std::atomic<bool> released_{false};
};

// The first that waits wakes last. It is a reward, or an end that is rejected and so never has a turn.
TEST(Rewards, HaveTheirTurnsInTheOrderInWhichTheyCame) {
  for (const bool ends : {false, true}) {
    HoldingClock clock;
    Episode episode(v1::Episode(), v1::EpisodeLimits(), true, false, std::nullopt, clock.Now(), clock);
    Episode::RewardTurn turn = episode.TakeRewardTurn(std::chrono::hours(1)).value();
    std::vector<int> order;
    std::atomic<int> served = 0;
    const auto wait = [&](int i) {
      const auto mine = episode.TakeRewardTurn(std::chrono::hours(1));
      EXPECT_TRUE(mine.ok()) << mine.status();
      order.push_back(i);
      ++served;
    };
    const auto end = [&] {
      EXPECT_EQ(HttpStatusOf(episode.StartEnd({.state = v1::EPISODE_FINISHED}, std::chrono::hours(1)).status()), 409);
    };
    std::thread first([&] { ends ? end() : wait(1); });
    while (clock.waits() < 1) std::this_thread::yield();
    std::thread second([&] { wait(2); });
    while (clock.waits() < 2) std::this_thread::yield();
    turn.reset();
    while (clock.waits() < 3 && served == 0) std::this_thread::yield();  // the second waits again, or has the turn
    EXPECT_EQ(served, 0);
    clock.Release();
    first.join();
    const int posts = ends ? 1 : 2;
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (served < posts && std::chrono::steady_clock::now() < late) std::this_thread::yield();
    EXPECT_EQ(served, posts) << "nobody woke the second";
    clock.Advance();
    second.join();
    EXPECT_EQ(order, ends ? std::vector<int>({2}) : std::vector<int>({1, 2}));
  }
}

// A reward of the gateway's last process arrived after this one had read the episode.
TEST(Rewards, AreNumberedAfterThoseThatThePoolHas) {
  const base::ManualClock clock;
  Episode episode(v1::Episode(), v1::EpisodeLimits(), true, false, std::nullopt, clock.Now(), clock);
  v1::EpisodeRewardRequest posted;
  posted.set_reward(1);
  EXPECT_EQ(episode.StartReward(posted)->number(), 1);
  v1::Episode stored;
  for (const int64_t number : {7, 3}) {
    stored.set_reward_number(number);
    episode.NoteStored(stored);
  }
  EXPECT_EQ(episode.StartReward(posted)->number(), 8);
}

// A session forgets its calls after max_calls of them and accepts more. Acknowledged rewards stay.
TEST(Rewards, OfASessionStayWhenItForgetsItsCalls) {
  World world([](const auto&) { return Say("ok"); });
  world.options.auto_episodes = true;
  world.options.max_calls_per_episode = 2;
  v1::EpisodeOpenResponse session;
  session.set_api_key("a key of its own");
  const auto reward = [&](int turn) {
    const auto call = world.Chat(session.api_key(), Body({Msg("user", std::to_string(turn))}));
    EXPECT_TRUE(call.status.ok()) << call.status;
    session.set_episode_id(world.pool.calls().back().episode_id());
    return world.gateway().RewardEpisode(RewardFrom(session, R"({"reward":1,"turn":)" + std::to_string(turn) + "}"));
  };
  EXPECT_TRUE(reward(0).ok());
  EXPECT_TRUE(reward(1).ok());
  EXPECT_EQ(HttpStatusOf(reward(2)), 400) << "no more than it remembers calls";
  ASSERT_TRUE(world.End(session, v1::EPISODE_FINISHED).ok());
  const v1::Episode stored = world.pool.episode(session.episode_id());
  EXPECT_EQ(stored.call_rewards_size(), 2);
  EXPECT_EQ(stored.call_rewards().at(world.pool.calls()[0].call_id()), 1);
}

// The session's turns share their prefixes, so only new tokens count. At the limit it begins a new history and goes on.
TEST(Episodes, ASessionBeginsANewHistoryWhenItHoldsSoManyTokens) {
  World world([](const auto&) { return Say("ok"); });
  world.options.auto_episodes = true;
  world.options.max_tokens_per_session = 1000;
  world.options.max_tokens_per_episode = 10;  // of no session
  array messages = {Msg("user", std::string(300, 'x'))};
  const auto spliced = [&] {
    const auto reply = world.Chat("a key of its own", Body(messages));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    messages.push_back(reply.message());
    messages.push_back(Msg("user", std::string(300, 'y')));
    return !world.pool.calls().back().parent_call_id().empty();
  };
  std::vector<bool> turns;
  for (int i = 0; i < 7; ++i) turns.push_back(spliced());
  // About 325 tokens a turn: four turns are over 1000. The fifth is rendered whole, and alone over it.
  EXPECT_EQ(turns, std::vector<bool>({false, true, true, true, false, false, false}));
  messages = {Msg("user", "short")};
  EXPECT_FALSE(spliced());
  EXPECT_TRUE(spliced());
}

TEST(Rewards, OfCallsAloneAreAnEpisodesReward) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  EXPECT_EQ(HttpStatusOf(world.End(episode, v1::EPISODE_FINISHED)), 409);
  ASSERT_TRUE(world.gateway().RewardEpisode(RewardFrom(episode, R"({"turn":0,"reward":0.5})")).ok());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0);
  EXPECT_EQ(world.admission.ended().at(0).reward(), 0.5);
}

TEST(Rewards, OfAnotherEpisodesCallIsRejected) {
  World world([](const auto&) { return Say("ok"); });
  const auto mine = world.Open(), other = world.Open();
  ASSERT_TRUE(world.Chat(other.api_key(), Body(Question())).status.ok());
  const std::string call = world.pool.calls()[0].call_id();
  EXPECT_EQ(
      HttpStatusOf(world.gateway().RewardEpisode(RewardFrom(mine, R"({"call_id":")" + call + R"(","reward":1})"))),
      404);
}

TEST(Rewards, AreRejectedForACallThatThePoolDidNotStore) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  world.pool.FailAppend(absl::UnavailableError("disk full"));
  EXPECT_FALSE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode(RewardFrom(episode, R"({"turn":0,"reward":1})"))), 404);
}

TEST(Rewards, NameTheirFaults) {
  const std::pair<const char*, const char*> faults[] = {
      {R"({"reward":"high"})", "reward"},
      {R"({"turn":0})", "reward"},
      {R"({"turn":-1,"reward":1})", "turn"},
      {R"({"turn":1.5,"reward":1})", "turn"},
      {R"({"turn":1,"call_id":"x","reward":1})", "turn"},
      {R"({"call_id":7,"reward":1})", "call_id"},
      {R"({"calls":{}})", "calls"},
      {R"({"calls":[7]})", "calls"},
      {R"({"calls":[{"reward":1}]})", "calls"},
      {R"({"calls":[{"turn":0}]})", "calls"},
      {R"({"reward":1,"call_rewards":[{"turn":0,"reward":1}]})", "call_rewards"},
      {R"({"calls":[{"index":0,"reward":1}]})", "calls[].index"},
      {R"({"signals":[1]})", "signals"},
      {R"({"signals":{"a":"b"}})", "a"},
      {R"({"facts":[1]})", "facts"},
  };
  for (const auto& [json, field] : faults) {
    v1::EpisodeRewardRequest request;
    const absl::Status status = ReadReward(base::ParseJson(json).value(), request);
    EXPECT_EQ(HttpStatusOf(status), 400) << json;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(std::string("'") + field + "'")) << json;
  }
}

TEST(Rewards, AndOpeningsRejectNamesThatWouldSteerWhatPrintsThem) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  for (const std::string& name : base::HostileTexts()) {
    if (base::IsPrintable(name) && name.size() <= 256) continue;
    v1::EpisodeRewardRequest reward;
    reward.set_episode_id(episode.episode_id());
    reward.set_api_key(episode.api_key());
    reward.set_reward(1);
    (*reward.mutable_signals())[name] = 1;
    const absl::Status rejected = world.gateway().RewardEpisode(reward);
    EXPECT_EQ(HttpStatusOf(rejected), 400);
    EXPECT_TRUE(base::IsPrintable(std::string(rejected.message()))) << rejected;
    for (const int field : {0, 1, 2, 3}) {
      v1::EpisodeOpenRequest open;
      open.set_group(field == 0 ? name : "g");
      open.set_scaffold(field == 1 ? name : "s");
      open.mutable_task()->set_task_id(field == 2 ? name : "t");
      open.mutable_task()->set_domain(field == 3 ? name : "d");
      EXPECT_EQ(HttpStatusOf(CheckOpen(open, true)), 400) << field;
    }
  }
  EXPECT_FALSE(world.pool.episode(episode.episode_id()).has_reward());
}

// Every way to a reward goes through the gateway's RewardEpisode: HTTP, gRPC and the runner's.
TEST(Rewards, BeyondTheBoundAreRejectedByItsName) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  const auto reward = [&](const std::string& json) { return world.gateway().RewardEpisode(RewardFrom(episode, json)); };
  const std::pair<const char*, const char*> rejected[] = {
      {R"({"reward":1e308})", "'reward' is 1e+308: it must be a finite number from -1e6 to 1e6"},
      {R"({"reward":-1000001})", "'reward' is -1"},
      {R"({"turn":0,"reward":1e200})", "the reward of a call is 1e+200"},
      {R"({"reward":1,"calls":[{"turn":0,"reward":1e7}]})", "the reward of a call is 1e+07"},
      {R"({"reward":1,"signals":{"bytes":1e31}})", "signal 'bytes' is 1e+31: it must be a finite number from -1e30"},
  };
  for (const auto& [json, says] : rejected) {
    const absl::Status status = reward(json);
    EXPECT_EQ(HttpStatusOf(status), 400) << json;
    EXPECT_FALSE(MayRetry(status)) << json;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(says)) << json;
  }
  EXPECT_FALSE(world.pool.episode(episode.episode_id()).has_reward()) << "nothing of a refused reward is stored";
  EXPECT_TRUE(reward(R"({"reward":1e6,"calls":[{"turn":0,"reward":-1e6}],"signals":{"bytes":1e15}})").ok());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 1e6);
}

TEST(Ending, RejectsUnknownFields) {
  v1::EpisodeEndRequest request;
  EXPECT_TRUE(ReadEnd(base::ParseJson(R"({"status":"failed","detail":"gave up"})").value(), request).ok());
  v1::EpisodeEndRequest broken;
  EXPECT_TRUE(ReadEnd(base::ParseJson(R"({"status":"infrastructure_failed","cause":"disk"})").value(), broken).ok());
  EXPECT_EQ(broken.state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(broken.cause(), "disk");
  const absl::Status status = ReadEnd(base::ParseJson(R"({"status":"finished","reward":1})").value(), request);
  EXPECT_EQ(HttpStatusOf(status), 400);
  EXPECT_EQ(status.message(), "unknown field 'reward'; known: status, detail, cause");
}

// ---- Limits ----

TEST(Limits, OfCallsAreTheTighterOnes) {
  World world([](const auto&) { return Say("ok"); });
  world.options.max_calls_per_episode = 3;
  const auto tight = world.gateway().OpenEpisode(OpenFrom(R"({"limits":{"max_calls":1}})")).value();
  const auto loose = world.gateway().OpenEpisode(OpenFrom(R"({"limits":{"max_calls":1000}})")).value();
  const auto count = [&](const v1::EpisodeOpenResponse& episode) {
    int calls = 0;
    while (world.Chat(episode.api_key(), Body(Question())).status.ok()) ++calls;
    return calls;
  };
  EXPECT_EQ(count(tight), 1);
  EXPECT_EQ(count(loose), 3);
  EXPECT_EQ(world.pool.episode(tight.episode_id()).limits().max_calls(), 1);
}

TEST(Limits, OfTokensCountPromptsAndSamples) {
  World world([](const auto&) { return Say("four"); });  // 5 ids with its end
  const auto one = world.Open();
  ASSERT_TRUE(world.Chat(one.api_key(), Body(Question())).status.ok());
  const int prompt = world.engine->requests()[0].prompt_ids_size();
  // Room for two calls, and for two tokens of a third one's answer.
  v1::EpisodeOpenRequest request;
  request.mutable_limits()->set_max_tokens(3 * prompt + 2 * 5 + 2);
  const auto episode = world.gateway().OpenEpisode(request).value();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok()) << i;
  }
  const auto requests = world.engine->requests();
  EXPECT_EQ(requests[1].sampling().max_new_tokens(), 2 * prompt + 2 * 5 + 2);
  EXPECT_EQ(requests[3].sampling().max_new_tokens(), 2) << "no more than what is left";
  const absl::Status rejected = world.Chat(episode.api_key(), Body(Question())).status;
  EXPECT_EQ(HttpStatusOf(rejected), 400);
  EXPECT_EQ(ErrorCodeOf(rejected), "episode_limit");
  EXPECT_FALSE(MayRetry(rejected));
}

TEST(Limits, AreErrorsThatNoDialectsClientTriesAgain) {
  World world([](const auto&) { return Say("ok"); });
  world.options.max_calls_per_episode = 1;
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  const std::map<std::string, std::string> bodies = {
      {"chat.completions", R"({"messages":[{"role":"user","content":"x"}]})"},
      {"completions", R"({"prompt":"x"})"},
      {"responses", R"({"input":"x"})"},
      {"messages", R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}]})"},
      {"google.generateContent", R"({"contents":[{"parts":[{"text":"x"}]}]})"}};
  for (const auto& [name, body] : bodies) {
    const absl::Status status = world.Ask(name, episode.api_key(), body).status;
    const Dialect::Error error = FindDialect(name)->ErrorOf(status);
    EXPECT_EQ(error.http, 400) << name;
    EXPECT_THAT(error.body, ::testing::AnyOf(::testing::HasSubstr("invalid_request_error"),
                                             ::testing::HasSubstr("INVALID_ARGUMENT")))
        << name;
    EXPECT_THAT(error.body, ::testing::HasSubstr("its limit")) << name;
  }
}

TEST(Limits, ACallThatTheEngineDidNotTakeCostsNoTokens) {
  bool full = true;
  World world([&](const auto&) {
    Script script = Say(full ? "" : "ok");
    if (full) script.end_of_turn = false;
    if (full) script.error = absl::ResourceExhaustedError("the queue is full");
    return script;
  });
  v1::EpisodeOpenRequest request;
  request.mutable_limits()->set_max_tokens(150);
  const auto episode = world.gateway().OpenEpisode(request).value();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 429);
  full = false;
  EXPECT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
}

TEST(Limits, ADeadlineEndsTheEpisodeAndItsCalls) {
  World world([](const auto&) {
    Script script = Say("slow");
    script.hold = true;
    return script;
  });
  const auto episode = world.gateway().OpenEpisode(OpenFrom(R"({"limits":{"deadline_s":60}})")).value();
  auto flag = std::make_shared<Flag>();
  auto call = world.StartChat(episode.api_key(), Body(Question()), [flag] { flag->Set(); });
  world.engine->WaitForHeld(1);
  world.clock.Advance(std::chrono::seconds(59));
  world.gateway().Tick();
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  world.clock.Advance(std::chrono::seconds(2));
  world.gateway().Tick();
  Answer::Output out;
  while (!(out = call->TakeOutput()).done) flag->WaitAndClear();
  EXPECT_EQ(HttpStatusOf(out.status), 409);
  while (world.gateway().Status().open_episodes() != 0) std::this_thread::yield();
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  EXPECT_EQ(stored.state(), v1::EPISODE_FAILED);
  EXPECT_THAT(stored.detail(), ::testing::HasSubstr("deadline of 60 s"));
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body(Question())).status), 410);
}

// ---- Opening ----

TEST(Opening, TakesATaskAGroupLimitsAndMetadata) {
  World world([](const auto&) { return Say("ok"); });
  const auto opened = world.gateway().OpenEpisode(OpenFrom(
      R"({"scaffold":"mine","task":{"task_id":"t9","payload":{"question":"why?", "n":18446744073709551616}},"domain":"physics","group":"g-1",
          "limits":{"max_calls":7,"max_tokens":1000,"deadline_s":2.5},"metadata":{"user":"a","tags":[1,2]}})"));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->task().task_id(), "t9");
  const v1::Episode stored = world.pool.episode(opened->episode_id());
  EXPECT_EQ(stored.task().payload_json(), R"({"question":"why?","n":18446744073709551616})");
  EXPECT_EQ(stored.task().domain(), "physics");
  EXPECT_EQ(stored.scaffold(), "mine");
  EXPECT_EQ(stored.limits().max_tokens(), 1000);
  EXPECT_EQ(stored.limits().deadline_s(), 2.5);
  EXPECT_EQ(stored.metadata_json(), R"({"user":"a","tags":[1,2]})");
}

TEST(Opening, NamesTheFault) {
  World world([](const auto&) { return Say("ok"); });
  const auto fault = [&](const std::string& json) {
    v1::EpisodeOpenRequest request;
    absl::Status status = ReadOpen(base::ParseJson(json).value(), base::JsonText(json), request);
    if (status.ok()) status = world.gateway().OpenEpisode(request).status();
    EXPECT_EQ(HttpStatusOf(status), 400) << json;
    return std::string(status.message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(fault(R"({"task":"t"})"), HasSubstr("'task'"));
  EXPECT_THAT(fault(R"({"task":{"task_id":"t"}})"), HasSubstr("'task' and 'group'"));
  EXPECT_THAT(fault(R"({"group":"g"})"), HasSubstr("'task' and 'group'"));
  EXPECT_THAT(fault(R"({"group":"g","task":{"payload":[1]}})"), HasSubstr("'task.payload'"));
  EXPECT_THAT(fault(R"({"limits":{"max_calls":-1}})"), HasSubstr("'limits'"));
  EXPECT_THAT(fault(R"({"limits":{"max_turns":1}})"), HasSubstr("max_turns"));
  EXPECT_THAT(fault(R"({"limits":[1]})"), HasSubstr("'limits'"));
  EXPECT_THAT(fault(R"({"scafold":1})"),
              HasSubstr("unknown field 'scafold'; known: scaffold, task, domain, group, limits, metadata"));
  EXPECT_THAT(fault(R"({"group":"g","task":{"id":"t"}})"), HasSubstr("unknown field 'task.id'; known: task_id"));
  EXPECT_THAT(fault(R"({"metadata":"x"})"), HasSubstr("'metadata'"));
  EXPECT_THAT(fault(R"({"metadata":{"x":")" + std::string(70000, 'x') + R"("}})"), HasSubstr("'metadata'"));
  EXPECT_THAT(fault(R"({"group":")" + std::string(300, 'g') + R"(","task":{}})"), HasSubstr("'group'"));
}

v1::EpisodeOpenRequest Once(const std::string& key, const std::string& scaffold = "") {
  v1::EpisodeOpenRequest request;
  request.set_idempotency_key(key);
  request.set_scaffold(scaffold);
  return request;
}
constexpr char kOnce[] = "0123456789abcdef";

TEST(Opening, RepeatedUnderItsKeyIsTheSameEpisode) {
  World world([](const auto&) { return Say("ok"); });
  const auto first = world.gateway().OpenEpisode(Once(kOnce)).value();
  // Also by a gateway that has only heard of it from the pool.
  for (int again = 0; again < 2; ++again) {
    const auto second = world.gateway().OpenEpisode(Once(kOnce)).value();
    EXPECT_EQ(second.SerializeAsString(), first.SerializeAsString());
    EXPECT_TRUE(world.Chat(second.api_key(), Body(Question())).status.ok());
    if (again == 0) {
      ASSERT_TRUE(world.Restart().ok());
    }
  }
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  const auto other = world.gateway().OpenEpisode(Once("fedcba9876543210")).value();
  EXPECT_NE(other.episode_id(), first.episode_id());
  EXPECT_NE(other.api_key(), first.api_key());
}

TEST(Opening, TheTasksDomainChoosesTheScaffoldAndItsKeys) {
  World world([](const auto&) { return Say("ok"); });
  v1::EpisodeOpenRequest request =
      OpenFrom(R"({"scaffold":"plain","task":{"task_id":"t"},"domain":"code","group":"g"})");
  request.set_idempotency_key(kOnce);
  v1::DomainScaffold& code = *request.add_by_domain();
  code.set_domain("code");
  code.set_scaffold("coder");
  code.set_separate_owner(true);
  const auto first = world.gateway().OpenEpisode(request).value();
  EXPECT_EQ(world.pool.episode(first.episode_id()).scaffold(), "coder");
  EXPECT_NE(first.owner_key(), "");
  EXPECT_EQ(world.gateway().OpenEpisode(request)->SerializeAsString(), first.SerializeAsString());
  request.set_idempotency_key("another key of 16");
  request.set_group("h");
  code.set_domain("maths");
  const auto second = world.gateway().OpenEpisode(request).value();
  EXPECT_EQ(world.pool.episode(second.episode_id()).scaffold(), "plain");
  EXPECT_EQ(second.owner_key(), "");
  request.set_idempotency_key("a third key of 16");
  request.set_group("i");
  request.mutable_task()->clear_domain();
  code.set_domain("default");
  const auto third = world.gateway().OpenEpisode(request).value();
  EXPECT_EQ(world.pool.episode(third.episode_id()).scaffold(), "coder") << "a task without a domain";
}

TEST(Opening, RepeatedWhileTheFirstIsUnderWayAdmitsOnce) {
  World world([](const auto&) { return Say("ok"); });
  Gateway& gateway = world.gateway();
  std::vector<std::string> ids(8);
  std::vector<std::thread> threads;
  for (std::string& id : ids) {
    threads.emplace_back([&] { id = gateway.OpenEpisode(Once(kOnce)).value().episode_id(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(ids, ::testing::Each(ids[0]));
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
}

TEST(Opening, ThatFailedMayBeRepeated) {
  World world([](const auto&) { return Say("ok"); });
  world.pool.FailOpen(absl::UnavailableError("no disk"));
  EXPECT_TRUE(absl::IsUnavailable(world.gateway().OpenEpisode(Once(kOnce)).status()));
  ASSERT_EQ(world.admission.ended().size(), 1u) << "its place is given back";
  EXPECT_EQ(world.admission.ended()[0].state(), v1::EPISODE_FENCED) << "no failed attempt: the pool's trouble";
  world.pool.FailOpen(absl::OkStatus());
  EXPECT_TRUE(world.gateway().OpenEpisode(Once(kOnce)).ok());
}

TEST(Opening, AKeyThatCannotBeUsedIsNamed) {
  World world([](const auto&) { return Say("ok"); });
  const auto fault = [&](const v1::EpisodeOpenRequest& request, int http) {
    const absl::Status status = world.gateway().OpenEpisode(request).status();
    EXPECT_EQ(HttpStatusOf(status), http) << status;
    return std::string(status.message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(fault(Once("guess me"), 400), HasSubstr("idempotency_key"));
  EXPECT_THAT(fault(Once(std::string(300, 'k')), 400), HasSubstr("idempotency_key"));
  const auto open = world.gateway().OpenEpisode(Once(kOnce, "mine")).value();
  EXPECT_THAT(fault(Once(kOnce, "theirs"), 400), HasSubstr("another episode"));
  ASSERT_TRUE(world.End(open, v1::EPISODE_FAILED).ok());
  EXPECT_THAT(fault(Once(kOnce, "mine"), 409), HasSubstr(open.episode_id()));
}

// ---- Keys ----

class AdminKey : public ::testing::Test {
 protected:
  AdminKey() : path_(std::filesystem::temp_directory_path() / ("ingot-admin-key-" + base::RandomHex(8))) {
    std::ofstream(path_) << kKey << "\n";
    std::filesystem::permissions(path_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  ~AdminKey() override { std::filesystem::remove(path_); }

  static constexpr char kKey[] = "an-admin-key-of-some-length";
  const std::filesystem::path path_;
};

TEST(OwnersKey, AloneRewardsAndEndsAndTheOtherCalls) {
  World world([](const auto&) { return Say("ok"); });
  world.options.auto_episodes = true;
  v1::EpisodeOpenRequest open = Once(kOnce);
  open.set_separate_owner(true);
  const auto episode = world.gateway().OpenEpisode(open).value();
  const auto say = [&] { return world.Chat(episode.api_key(), Body(Question())).status; };
  const auto end = [&](const std::string& key) {
    v1::EpisodeEndRequest request;
    request.set_episode_id(episode.episode_id());
    request.set_api_key(key);
    request.set_state(v1::EPISODE_FINISHED);
    return world.gateway().EndEpisode(request).status();
  };
  // Also at a gateway that has only heard of it from the pool, which holds no key.
  for (int again = 0; again < 2; ++again) {
    EXPECT_TRUE(say().ok());
    EXPECT_TRUE(world.Chat(episode.owner_key(), Body(Question())).status.ok());
    EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode(RewardFrom(episode, R"({"reward":50})"))), 403);
    EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode(RewardFrom(episode, R"({"turn":0,"reward":100})"))), 403);
    EXPECT_EQ(HttpStatusOf(end(episode.api_key())), 403);
    EXPECT_TRUE(world.gateway().RewardEpisode(episode.episode_id(), episode.owner_key(), 0.5, {}).ok());
    if (again == 0) {
      ASSERT_TRUE(world.Restart().ok());
    }
    EXPECT_EQ(world.gateway().OpenEpisode(open)->SerializeAsString(), episode.SerializeAsString());
  }
  EXPECT_TRUE(end(episode.owner_key()).ok());
  EXPECT_TRUE(end(episode.owner_key()).ok()) << "told again";
  EXPECT_EQ(HttpStatusOf(end(episode.api_key())), 403);
  EXPECT_EQ(HttpStatusOf(say()), 410) << "no session is opened for it";
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.owner_key(), Body(Question())).status), 410);
  EXPECT_EQ(world.admission.ended().at(0).reward(), 0.5);
}

TEST(OwnersKey, IsTheCallKeyUnlessASeparateOneIsAskedFor) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.gateway().OpenEpisode(Once(kOnce)).value();
  EXPECT_EQ(episode.owner_key(), "");
  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_TRUE(world.Reward(episode, 1).ok());
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
}

TEST_F(AdminKey, OpensRewardsAndEndsButCallsNoModel) {
  World world([](const auto&) { return Say("ok"); });
  world.options.admin_key_file = path_;
  world.options.auto_episodes = true;
  v1::EpisodeOpenRequest open;
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode(open).status()), 401);
  open.set_admin_key("an-admin-key-of-some-lengtH");
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode(open).status()), 403);
  open.set_admin_key(kKey);
  const auto episode = world.gateway().OpenEpisode(open).value(), other = world.gateway().OpenEpisode(open).value();
  open.set_admin_key(episode.api_key());
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode(open).status()), 403) << "an episode opens no other";

  ASSERT_TRUE(world.Chat(episode.api_key(), Body(Question())).status.ok());
  EXPECT_EQ(HttpStatusOf(world.Chat(kKey, Body(Question())).status), 403);
  EXPECT_TRUE(world.gateway().RewardEpisode(episode.episode_id(), kKey, 0.5, {}).ok());
  EXPECT_TRUE(world.gateway().RewardEpisode(episode.episode_id(), episode.api_key(), std::nullopt, {{"a", 1}}).ok());
  EXPECT_EQ(HttpStatusOf(world.gateway().RewardEpisode(episode.episode_id(), other.api_key(), 1, {})), 403);
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode.episode_id());
  end.set_api_key(kKey);
  end.set_state(v1::EPISODE_FINISHED);
  EXPECT_TRUE(world.gateway().EndEpisode(end).ok());
  EXPECT_TRUE(world.gateway().EndEpisode(end).ok()) << "told again";
  EXPECT_EQ(world.pool.episode(episode.episode_id()).reward(), 0.5);
}

TEST_F(AdminKey, MayBeGivenByTheProgramAndAFileWinsOverIt) {
  World world([](const auto&) { return Say("ok"); });
  world.admin_key = "a-key-that-the-program-made";
  v1::EpisodeOpenRequest open;
  const absl::Status rejected = world.gateway().OpenEpisode(open).status();
  EXPECT_EQ(HttpStatusOf(rejected), 401);
  EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr("leave agents.recipes out"))
      << "nobody else can have the program's key";
  open.set_admin_key(world.admin_key);
  EXPECT_TRUE(world.gateway().OpenEpisode(open).ok());
  world.options.admin_key_file = path_;
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode(open).status()), 403);
  open.set_admin_key(kKey);
  EXPECT_TRUE(world.gateway().OpenEpisode(open).ok());
}

TEST_F(AdminKey, FilesWithoutAKeyAreRejected) {
  GatewayOptions options;
  EXPECT_EQ(*ReadAdminKey(options), "");
  options.admin_key_file = path_;
  EXPECT_EQ(*ReadAdminKey(options), kKey);
  for (const char* bad : {"", "short", "two words that are long enough"}) {
    std::ofstream(path_) << bad;
    EXPECT_TRUE(absl::IsInvalidArgument(ReadAdminKey(options).status())) << bad;
  }
  std::ofstream(path_) << kKey;
  EXPECT_EQ(*ReadAdminKey(options), kKey);
  std::filesystem::permissions(path_, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_THAT(std::string(ReadAdminKey(options).status().message()), ::testing::HasSubstr("chmod 600 "));
  options.admin_key_file += "-missing";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadAdminKey(options).status()));
}

}  // namespace
}  // namespace ingot::gateway
