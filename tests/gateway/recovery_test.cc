// A gateway that is started again goes on with the episodes of the one before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gateway/api/api_error.h"
#include "gateway/fakes.h"
#include "gateway/gateway.h"

namespace ingot::gateway::recovery_test {
namespace {

using base::json::array;
using base::json::object;

constexpr char kCallText[] =
    "<think>\nlook\n</think>\n\nLet me add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": "
    "2}}\n</tool_call>";

Script Author(const v1::GenerateRequest& request) {
  const std::vector<int32_t> ids(request.prompt_ids().begin(), request.prompt_ids().end());
  const std::string prompt = TestTokenizer()->Decode(ids, false);
  Script script;
  script.text = prompt.find("<tool_response>") == std::string::npos ? kCallText : "It is 3.";
  return script;
}

// Asks, takes the tool call, and answers it: the request that would continue the call.
object Continuation(World& world, const std::string& key) {
  object body = Body({Msg("system", "You add."), Msg("user", "1+2?")});
  body["tools"] = CalculatorTools();
  const auto first = world.Chat(key, body);
  EXPECT_TRUE(first.status.ok()) << first.status;
  object echoed = first.message().as_object();
  object result = Msg("tool", "3");
  result["tool_call_id"] = echoed["tool_calls"].at(0).at("id");
  body["messages"].as_array().push_back(echoed);
  body["messages"].as_array().push_back(result);
  return body;
}

TEST(Recovery, AnAgentGoesOnUnderItsKeyOnTheSampledIds) {
  World world(Author);
  const auto episode = world.Open();
  object body = Continuation(world, episode.api_key());
  ASSERT_TRUE(world.Restart().ok());
  const auto second = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(second.status.ok()) << second.status;
  body["messages"].as_array().push_back(second.message());
  body["messages"].as_array().push_back(Msg("tool", "3 it is"));
  // Twice: what the second gateway added is found too.
  ASSERT_TRUE(world.Restart().ok());
  const auto third = world.Chat(episode.api_key(), body);
  ASSERT_TRUE(third.status.ok()) << third.status;

  const auto calls = world.pool.calls();
  const auto requests = world.engine->requests();
  ASSERT_EQ(calls.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(calls[i].sequence(), i);
    EXPECT_EQ(calls[i].fork_cause(), "") << i;
    EXPECT_EQ(calls[i].parent_call_id(), i == 0 ? "" : calls[i - 1].call_id());
    const auto& sent = requests[i].prompt_ids();
    EXPECT_EQ(world.pool.PromptOf(calls[i]), std::vector<int32_t>(sent.begin(), sent.end()));
    if (i == 0) continue;
    // It begins with all that its predecessor was asked and sampled.
    std::vector<int32_t> before = world.pool.PromptOf(calls[i - 1]);
    for (const int32_t id : world.pool.Ids(calls[i - 1].sampled_keys())) before.push_back(id);
    ASSERT_GT(sent.size(), static_cast<int>(before.size()));
    EXPECT_TRUE(std::equal(before.begin(), before.end(), sent.begin())) << i;
  }
  ASSERT_TRUE(world.Reward(episode, 1).ok());
  ASSERT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_FINISHED);
  ASSERT_EQ(world.admission.ended().size(), 1u);
}

// An attempt in place of one that was lost samples what that one would have sampled; after a failure, others.
TEST(Recovery, SeedsChangeWithFailedAttemptsAlone) {
  World world([](const auto&) { return Say("ok"); });
  int32_t attempt = 0;
  world.admission.change = [&attempt](const auto&, v1::Ticket& ticket) {
    ticket.mutable_ref()->set_sample_index(0);
    ticket.mutable_ref()->set_attempt(attempt++);
  };
  const auto seed = [&world](const v1::EpisodeOpenResponse& episode) {
    EXPECT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status.ok());
    return world.engine->requests().back().sampling().seed();
  };
  const auto lost = world.Open();
  const uint64_t first = seed(lost);
  world.pool.Fence(lost.episode_id());
  const auto again = world.Open();
  EXPECT_EQ(seed(again), first);
  EXPECT_NE(seed(again), first) << "its second call";

  ASSERT_TRUE(world.End(again, v1::EPISODE_FAILED, "crashed").ok());
  ASSERT_TRUE(world.End(world.Open(), v1::EPISODE_INFRASTRUCTURE_FAILED, "no sandbox").ok());
  const auto other = world.Open();
  ASSERT_TRUE(world.Restart().ok());  // the next gateway counts anew
  const uint64_t third = seed(other);
  EXPECT_NE(third, first);
  world.pool.Fence(other.episode_id());
  EXPECT_EQ(seed(world.Open()), third);

  world.pool.FailList(absl::UnavailableError("the pool restarts"));
  const size_t ended = world.admission.ended().size();
  EXPECT_TRUE(absl::IsUnavailable(world.gateway().OpenEpisode({}).status()));
  EXPECT_EQ(world.admission.ended().size(), ended + 1) << "the place is free again";
}

// The thought that a client drops is put back after a restart too, and in the conversation it belongs to alone.
TEST(Recovery, DroppedReasoningIsPutBackWhereItWasSampled) {
  World world(Author);
  const auto episode = world.Open();
  object body = Continuation(world, episode.api_key());
  object& echoed = body["messages"].as_array()[2].as_object();
  echoed.erase("reasoning_content");
  ASSERT_TRUE(world.Restart().ok());
  const auto prompt = [&] {
    EXPECT_TRUE(world.Chat(episode.api_key(), body).status.ok());
    const auto request = world.engine->requests().back();
    return TestTokenizer()->Decode(std::vector<int32_t>(request.prompt_ids().begin(), request.prompt_ids().end()),
                                   false);
  };
  EXPECT_NE(prompt().find("<think>\nlook\n</think>"), std::string::npos);
  EXPECT_EQ(world.pool.calls()[1].parent_call_id(), world.pool.calls()[0].call_id());
  // The prefix was changed: the id of its call still names it.
  body["messages"].as_array()[0] = Msg("system", "You subtract.");
  EXPECT_NE(prompt().find("<think>\nlook\n</think>"), std::string::npos);
  EXPECT_EQ(world.pool.calls()[2].fork_cause(), kForkHistoryRewritten);
  echoed["tool_calls"].at(0).at("id") = "another";
  body["messages"].as_array()[3].as_object()["tool_call_id"] = "another";
  EXPECT_EQ(prompt().find("<think>\nlook\n</think>"), std::string::npos);
}

TEST(Recovery, RewardsPostedToTheGatewayBeforeCount) {
  World world(Author);
  const auto whole = world.Open(), calls = world.Open(), none = world.Open();
  Continuation(world, calls.api_key());
  v1::EpisodeRewardRequest of_call;
  of_call.set_episode_id(calls.episode_id());
  of_call.set_api_key(calls.api_key());
  of_call.add_call_rewards()->set_turn(0);
  of_call.mutable_call_rewards(0)->set_reward(0.5);
  (*of_call.mutable_signals())["style"] = 2;
  (*of_call.mutable_facts())["seen"] = "[1]";
  ASSERT_TRUE(world.gateway().RewardEpisode(of_call).ok());
  ASSERT_TRUE(world.Reward(whole, 0).ok());  // a reward of 0 is one
  ASSERT_TRUE(world.Restart().ok());
  // Posted again by a client that missed the answer, and then ended.
  ASSERT_TRUE(world.gateway().RewardEpisode(of_call).ok());
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_TRUE(world.End(whole, v1::EPISODE_FINISHED).ok());
  EXPECT_TRUE(world.End(calls, v1::EPISODE_FINISHED).ok());
  EXPECT_EQ(HttpStatusOf(world.End(none, v1::EPISODE_FINISHED)), 409) << "this one has none";
  const v1::Episode stored = world.pool.episode(calls.episode_id());
  EXPECT_EQ(stored.call_rewards().at(world.pool.calls().at(0).call_id()), 0.5);
  EXPECT_EQ(stored.signals().at("style"), 2);
  EXPECT_EQ(stored.facts().at("seen"), "[1]");
  const auto ended = world.admission.ended();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].reward(), 0);
  EXPECT_EQ(ended[1].reward(), 0.5);
}

TEST(Recovery, AHistoryThatCannotBeReadIsRenderedAnew) {
  World world(Author);
  const auto episode = world.Open();
  const object body = Continuation(world, episode.api_key());
  world.pool.Damage([](v1::Call& call) { call.set_delivered_json("{"); });
  ASSERT_TRUE(world.Restart().ok());
  ASSERT_TRUE(world.Chat(episode.api_key(), body).status.ok());
  EXPECT_EQ(world.pool.calls().at(1).parent_call_id(), "");
  EXPECT_EQ(world.pool.calls().at(1).sequence(), 1);
}

TEST(Recovery, EndedEpisodesStayEndedAndForeignKeysForeign) {
  World world(Author);
  const auto ended = world.Open(), open = world.Open();
  ASSERT_TRUE(world.End(ended, v1::EPISODE_FAILED, "gone").ok());
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  const object body = Body({Msg("user", "1+2?")});
  EXPECT_EQ(HttpStatusOf(world.Chat(ended.api_key(), body).status), 401);
  EXPECT_EQ(HttpStatusOf(world.Reward({}, 1)), 404);
  EXPECT_TRUE(world.Chat(open.api_key(), body).status.ok());
}

TEST(Recovery, AnEndWhoseAnswerWasLostMayBeRepeated) {
  World world(Author);
  const auto ended = world.Open();
  ASSERT_TRUE(world.End(ended, v1::EPISODE_FAILED, "gone").ok());
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_TRUE(world.End(ended, v1::EPISODE_FAILED, "gone").ok());
  EXPECT_EQ(HttpStatusOf(world.End(ended, v1::EPISODE_FINISHED)), 409);
  EXPECT_EQ(HttpStatusOf(world.Reward(ended, 1)), 410);
  v1::EpisodeOpenResponse foreign = ended;
  foreign.set_api_key("another");
  EXPECT_EQ(HttpStatusOf(world.End(foreign, v1::EPISODE_FAILED, "gone")), 403);
  EXPECT_EQ(world.admission.ended().size(), 1u);
}

TEST(Recovery, ANewRunnerEndsEpisodesOfAnOlderOneAcrossARestart) {
  World world(Author);
  const auto open = [&](const std::string& incarnation) {
    v1::EpisodeOpenRequest request;
    request.set_runner("agents");
    request.set_incarnation(incarnation);
    return world.gateway().OpenEpisode(request).value();
  };
  const auto lost = open("1");
  ASSERT_TRUE(world.Restart().ok());
  const auto kept = open("1");
  EXPECT_EQ(world.pool.episode(lost.episode_id()).state(), v1::EPISODE_OPEN);
  ASSERT_TRUE(world.Restart().ok());
  open("2");
  EXPECT_EQ(world.pool.episode(lost.episode_id()).state(), v1::EPISODE_FENCED);
  EXPECT_EQ(world.pool.episode(kept.episode_id()).state(), v1::EPISODE_FENCED);
}

// An agent was told that its reward is stored; then its runner died before the end.
TEST(Recovery, ANewRunnerFinishesTheRewardedEpisodesOfAnOlderOne) {
  for (const bool restart : {false, true}) {
    World world(Author);
    const auto open = [&](const std::string& incarnation) {
      v1::EpisodeOpenRequest request;
      request.set_runner("agents");
      request.set_incarnation(incarnation);
      return world.gateway().OpenEpisode(request).value();
    };
    const auto rewarded = open("1"), partly = open("1"), none = open("1");
    Continuation(world, partly.api_key());
    v1::EpisodeRewardRequest of_call;
    of_call.set_episode_id(partly.episode_id());
    of_call.set_api_key(partly.api_key());
    of_call.add_call_rewards()->set_turn(0);
    of_call.mutable_call_rewards(0)->set_reward(0.5);
    ASSERT_TRUE(world.gateway().RewardEpisode(of_call).ok());
    // A reward may be posted again: the last one before the loss counts, provisional or not.
    for (const double posted : {0.25, 0.75}) ASSERT_TRUE(world.Reward(rewarded, posted).ok());
    if (restart) {
      ASSERT_TRUE(world.Restart().ok());
    }
    open("2");
    const v1::Episode finished = world.pool.episode(rewarded.episode_id());
    EXPECT_EQ(finished.state(), v1::EPISODE_FINISHED);
    EXPECT_EQ(finished.reward(), 0.75);
    EXPECT_EQ(finished.detail(), "its runner was restarted; its reward had been posted");
    // A reward of a call is no verdict. It stays in the record.
    const v1::Episode tried_again = world.pool.episode(partly.episode_id());
    EXPECT_EQ(tried_again.state(), v1::EPISODE_FENCED);
    EXPECT_EQ(tried_again.call_rewards_size(), 1);
    EXPECT_EQ(world.pool.episode(none.episode_id()).state(), v1::EPISODE_FENCED);
    std::map<int32_t, double> reported;
    for (const auto& ended : world.admission.ended()) {
      if (ended.state() == v1::EPISODE_FINISHED) reported[ended.ref().sample_index()] = ended.reward();
    }
    EXPECT_EQ(reported, (std::map<int32_t, double>{{0, 0.75}}));
  }
}

// The pool holds a newer attempt of the sample, so that this one's end is refused for good.
TEST(Recovery, AnEndThatThePoolRejectsForGoodIsGivenUpOnce) {
  World world(Author);
  const auto episode = world.Open();
  ASSERT_TRUE(world.Reward(episode, 1).ok());
  world.pool.Fence(episode.episode_id());
  const absl::Status rejected = world.End(episode, v1::EPISODE_FINISHED);
  EXPECT_EQ(HttpStatusOf(rejected), 409);
  EXPECT_FALSE(MayRetry(rejected));
  EXPECT_THAT(std::string(rejected.message()), ::testing::HasSubstr("is fenced"));
  EXPECT_EQ(world.gateway().Status().open_episodes(), 0);
  ASSERT_EQ(world.admission.ended().size(), 1u);
  EXPECT_EQ(world.admission.ended()[0].state(), v1::EPISODE_FENCED);
  const int ends = world.pool.ends;
  for (int i = 0; i < 3; ++i) world.gateway().Tick();
  EXPECT_EQ(world.pool.ends, ends) << "nothing is tried again";
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status), 410);
}

TEST(Recovery, AnEpisodeThatTheSchedulerWillNeverKnowIsGivenUpOnce) {
  World world(Author);
  const auto episode = world.Open();
  ASSERT_TRUE(world.Reward(episode, 1).ok());
  world.admission.FailEnded(absl::InvalidArgumentError("group 7 was never admitted"));
  EXPECT_TRUE(world.End(episode, v1::EPISODE_FINISHED).ok()) << "the end is durable";
  EXPECT_EQ(world.gateway().Status().open_episodes(), 0);
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_FINISHED);
  // One that cannot be reached will know it later.
  const auto other = world.Open();
  world.admission.FailEnded(absl::UnavailableError("it restarts"));
  EXPECT_FALSE(world.End(other, v1::EPISODE_FAILED).ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  world.admission.FailEnded(absl::OkStatus());
  world.gateway().Tick();
  while (world.gateway().Status().open_episodes() != 0) std::this_thread::yield();
  EXPECT_EQ(world.admission.ended().size(), 1u);
}

// Another machine's clock, an hour behind: the time of the episode's last call counts.
TEST(Recovery, AClockThatIsBehindDoesNotProlongAnEpisodeByMoreThanItsLastPause) {
  World world(Author);
  v1::EpisodeOpenRequest open;
  open.mutable_limits()->set_deadline_s(60);
  const auto episode = world.gateway().OpenEpisode(open).value();
  world.clock.Advance(std::chrono::seconds(50));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status.ok());
  world.wall.SetWall(-std::chrono::hours(1));
  ASSERT_TRUE(world.Restart().ok());
  world.clock.Advance(std::chrono::seconds(9));
  world.gateway().Tick();
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  world.clock.Advance(std::chrono::seconds(2));
  world.gateway().Tick();
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (world.gateway().Status().open_episodes() != 0 && std::chrono::steady_clock::now() < late) {
    std::this_thread::yield();
  }
  const v1::Episode stored = world.pool.episode(episode.episode_id());
  EXPECT_EQ(stored.state(), v1::EPISODE_FAILED);
  EXPECT_EQ(stored.ended_unix_ns() - stored.opened_unix_ns(), 61'000'000'000);
}

// The wall clock was set an hour forward while no gateway ran.
TEST(Recovery, AClockThatWasSetForwardEndsNoEpisode) {
  World world(Author);
  v1::EpisodeOpenRequest open;
  open.mutable_limits()->set_deadline_s(60);
  const auto episode = world.gateway().OpenEpisode(open).value();
  world.clock.Advance(std::chrono::seconds(20));
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status.ok());
  world.wall.SetWall(std::chrono::hours(1));
  ASSERT_TRUE(world.Restart().ok());
  world.clock.Advance(std::chrono::seconds(39));
  world.gateway().Tick();
  ASSERT_TRUE(world.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status.ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  world.clock.Advance(std::chrono::seconds(2));
  world.gateway().Tick();
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (world.gateway().Status().open_episodes() != 0 && std::chrono::steady_clock::now() < late) {
    std::this_thread::yield();
  }
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_FAILED);
}

TEST(Recovery, AnEpisodeThatCannotBeReadEndsAsLost) {
  World world(Author);
  const auto lost = world.Open(), kept = world.Open();
  world.pool.FailGet(lost.episode_id(), absl::DataLossError("damaged"));
  ASSERT_TRUE(world.Restart().ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  EXPECT_EQ(world.pool.episode(lost.episode_id()).state(), v1::EPISODE_FENCED);
  EXPECT_EQ(world.pool.episode(kept.episode_id()).state(), v1::EPISODE_OPEN);
  // An error that passes is no loss.
  world.pool.FailGet(kept.episode_id(), absl::UnavailableError("no pool"));
  EXPECT_EQ(world.Restart().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(world.pool.episode(kept.episode_id()).state(), v1::EPISODE_OPEN);
}

TEST(Recovery, APoolThatDoesNotAnswerIsAnError) {
  World world(Author);
  const auto episode = world.Open();
  world.pool.FailList(absl::UnavailableError("no pool"));
  EXPECT_EQ(world.Restart().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ingot::gateway::recovery_test
