// Openings that meet each other, or a shutdown.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

#include "gateway/api/api_error.h"
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
    return std::async(std::launch::async, [this] { return Unshared(gateway().OpenEpisode({}).status()); });
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

TEST(Opening, ASessionWhoseEndThePoolRefusesForGoodMakesRoom) {
  FullWorld world(1);
  world.pool.FailEnd(absl::FailedPreconditionError("it has ended"));
  EXPECT_TRUE(world.gateway().OpenEpisode({}).ok());
  EXPECT_EQ(world.gateway().Status().open_episodes(), 1);
}

}  // namespace
}  // namespace ingot::gateway
