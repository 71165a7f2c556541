// Openings that meet each other, a shutdown, or a further start of their runner.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gateway/api/api_error.h"
#include "gateway/episodes/incarnations.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

Script Say(const v1::GenerateRequest&) {
  Script script;
  script.text = "ok";
  return script;
}

// A gateway that opens sessions for unknown keys, and has place for `places` episodes.
struct FullWorld : World {
  explicit FullWorld(int places) : World(Say) {
    options.auto_episodes = true;
    options.max_open_episodes = places;
    for (int i = 0; i < places; ++i) {
      EXPECT_TRUE(Chat("session " + std::to_string(i), Body({Msg("user", "hi")})).status.ok());
      while (gateway().Status().active_calls() != 0) std::this_thread::yield();
      clock.Advance(std::chrono::seconds(1));
    }
  }
  std::future<absl::Status> OpenAsync() {
    return std::async(std::launch::async, [this] { return gateway().OpenEpisode({}).status(); });
  }
};

TEST(Opening, AtTheLimitEachEndsAnIdleSessionOfItsOwn) {
  FullWorld world(2);
  world.pool.CloseEndGate(true);
  std::vector<std::future<absl::Status>> openers;
  for (int i = 0; i < 2; ++i) openers.push_back(world.OpenAsync());
  const bool two_end = world.pool.WaitForEnds(2);
  EXPECT_TRUE(two_end) << "both wait for the end of one session";
  if (two_end) {
    EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode({}).status()), 429) << "both places are promised";
  }
  world.pool.CloseEndGate(false);
  for (auto& opener : openers) EXPECT_EQ(opener.get(), absl::OkStatus());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 2);
}

TEST(Opening, NoneFollowsAShutdownThatItMetWhileItMadeRoom) {
  FullWorld world(1);
  world.pool.CloseEndGate(true);
  auto opener = world.OpenAsync();
  EXPECT_TRUE(world.pool.WaitForEnds(1));
  world.gateway().Shutdown();
  world.pool.CloseEndGate(false);
  EXPECT_EQ(HttpStatusOf(opener.get()), 503);
  EXPECT_EQ(world.gateway().Status().open_episodes(), 0);
}

TEST(Opening, ASessionThatCannotBeEndedKeepsItsPlace) {
  FullWorld world(1);
  world.pool.FailEnd(absl::InternalError("the disk is full"));
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode({}).status()), 503) << "not 409: the run is not over";
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  EXPECT_EQ(world.admission.admitted(), 0);
}

TEST(Opening, ASessionWhoseEndThePoolRejectsForGoodMakesRoom) {
  FullWorld world(1);
  world.pool.FailEnd(absl::FailedPreconditionError("it has ended"));
  EXPECT_TRUE(world.gateway().OpenEpisode({}).ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
}

v1::EpisodeOpenRequest Of(const std::string& runner, const std::string& incarnation) {
  v1::EpisodeOpenRequest request;
  request.set_runner(runner);
  request.set_incarnation(incarnation);
  return request;
}

TEST(Opening, ALateOneOfAnEarlierStartEndsNothing) {
  World world(Say);
  ASSERT_TRUE(world.gateway().OpenEpisode(Of("agents", "1")).ok());
  const auto alive = world.gateway().OpenEpisode(Of("agents", "2"));
  ASSERT_TRUE(alive.ok()) << alive.status();
  const absl::Status late = world.gateway().OpenEpisode(Of("agents", "1")).status();
  EXPECT_TRUE(absl::IsAborted(late)) << late;
  EXPECT_EQ(world.pool.episode(alive->episode_id()).state(), v1::EPISODE_OPEN);
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  EXPECT_TRUE(world.gateway().OpenEpisode(Of("agents", "2")).ok());
  EXPECT_TRUE(world.gateway().OpenEpisode(Of("others", "1")).ok()) << "another runner's name for its start";
}

TEST(Opening, OneThatIsRejectedEndsNothing) {
  World world(Say);
  ASSERT_TRUE(world.gateway().OpenEpisode(Of("agents", "1")).ok());
  v1::EpisodeOpenRequest faulty = Of("agents", "2");
  faulty.set_group("mine");  // without a task
  EXPECT_EQ(HttpStatusOf(world.gateway().OpenEpisode(faulty).status()), 400);
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
  EXPECT_TRUE(world.gateway().OpenEpisode(Of("agents", "1")).ok());
}

// The next start's first opening finds no episode to end yet.
TEST(Opening, OneWhoseRunnerIsStartedAgainMeanwhileIsEnded) {
  World world(Say);
  std::string abandoned, alive;
  world.pool.before_open = [&](const v1::Episode& episode) {
    if (episode.incarnation() != "1") return;
    abandoned = episode.episode_id();
    const auto next = world.gateway().OpenEpisode(Of("agents", "2"));
    EXPECT_TRUE(next.ok()) << next.status();
    if (next.ok()) alive = next->episode_id();
  };
  EXPECT_TRUE(absl::IsAborted(world.gateway().OpenEpisode(Of("agents", "1")).status()));
  EXPECT_EQ(world.pool.episode(abandoned).state(), v1::EPISODE_FENCED);
  EXPECT_EQ(world.pool.episode(alive).state(), v1::EPISODE_OPEN);
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
}

TEST(Incarnations, ToldApartByTheOrderInWhichTheyWereSeen) {
  using enum Incarnations::Start;
  Incarnations seen;
  EXPECT_EQ(seen.NewestOf("agents"), std::nullopt);
  EXPECT_EQ(seen.See("agents", "1"), kNewer);
  EXPECT_EQ(seen.See("agents", "1"), kSame);
  EXPECT_EQ(seen.See("agents", "2"), kNewer);
  EXPECT_EQ(seen.See("agents", "1"), kPast);
  EXPECT_EQ(seen.NewestOf("agents"), "2");
  EXPECT_EQ(seen.See("unnamed", ""), kSame);
  EXPECT_EQ(seen.See("unnamed", "1"), kNewer);
}

TEST(Incarnations, AreForgottenBeyondTheirLimits) {
  Incarnations seen;
  for (size_t i = 0; i <= Incarnations::kMostPast + 1; ++i) seen.See("agents", std::to_string(i));
  EXPECT_EQ(seen.See("agents", "1"), Incarnations::Start::kPast);
  EXPECT_EQ(seen.See("agents", "0"), Incarnations::Start::kNewer) << "it is forgotten";
  seen.See("silent", "1");
  for (size_t i = 0; i < 2 * Incarnations::kMostRunners; ++i) {
    seen.See("outside " + std::to_string(i), "1");
    seen.See("agents", "0");
  }
  EXPECT_EQ(seen.runners(), Incarnations::kMostRunners);
  EXPECT_EQ(seen.NewestOf("silent"), std::nullopt);
  EXPECT_EQ(seen.NewestOf("agents"), "0") << "it was seen all the time";
}

}  // namespace
}  // namespace ingot::gateway
