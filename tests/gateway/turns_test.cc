// The numbers under which an episode's calls are rewarded: those of the calls that were recorded.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "gateway/api/api_error.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
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

// The record is there, and the pool's answer was lost. It is the pool that knows.
TEST(Turns, ANumberThatThePoolHasIsGivenToNoOtherCall) {
  World world([](const auto&) { return Say("ok"); });
  const auto episode = world.Open();
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  world.pool.FailAppend(absl::AlreadyExistsError("another call with sequence 1"));
  EXPECT_EQ(HttpStatusOf(world.Chat(episode.api_key(), Ask("3+4?")).status), 503);
  world.pool.FailAppend(absl::OkStatus());
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("3+4?")).status.ok());
  EXPECT_EQ(world.pool.calls().at(1).sequence(), 2);
  EXPECT_TRUE(RewardTurn(world, episode, 1).ok()) << "the second answer that the client got";
}

TEST(Turns, ACallInFlightHoldsItsPlaceUntilItFails) {
  World world([](const v1::GenerateRequest& request) {
    const std::vector<int32_t> ids(request.prompt_ids().begin(), request.prompt_ids().end());
    const bool slow = TestTokenizer()->Decode(ids, false).find("slow") != std::string::npos;
    Script script = Say("ok", slow);
    if (slow) script.error = absl::UnavailableError("the engine is gone");
    if (slow) script.text = "";
    script.end_of_turn = !slow;
    return script;
  });
  const auto episode = world.Open();
  auto done = std::make_shared<Flag>();
  const auto slow = world.StartChat(episode.api_key(), Ask("slow"), [done] { done->Set(); });
  world.engine->WaitForHeld(1);
  ASSERT_TRUE(world.Chat(episode.api_key(), Ask("1+2?")).status.ok());
  EXPECT_EQ(HttpStatusOf(RewardTurn(world, episode, 0)), 404);
  EXPECT_TRUE(RewardTurn(world, episode, 1).ok());
  world.engine->Release();
  while (!slow->Take().done) done->WaitAndClear();
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
}  // namespace ingot::gateway
