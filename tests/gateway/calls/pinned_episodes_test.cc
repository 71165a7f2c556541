// With GatewayParts::pins_episodes, all calls of an episode prefer the version of the first one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using ::testing::ElementsAre;

constexpr char kAnswer[] = "an answer";  // 9 ids and the end of the turn, of versions 0 to 2 (scripted_engine.h)

Script Saying(const std::string& text) {
  Script script;
  script.text = text;
  return script;
}

std::vector<int64_t> Preferred(const World& world) {
  std::vector<int64_t> versions;
  for (const v1::GenerateRequest& request : world.engine->requests()) {
    EXPECT_EQ(request.pinned_version(), -1);
    versions.push_back(request.has_preferred_version() ? request.preferred_version() : -2);
  }
  return versions;
}

// Sends a request and returns the one that continues it.
object Continue(World& world, const std::string& key, object body) {
  const auto outcome = world.Chat(key, body);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  body["messages"].as_array().push_back(outcome.message());
  body["messages"].as_array().push_back(Msg("user", "go on"));
  return body;
}

TEST(PinnedEpisodes, CallsPreferTheVersionOfTheFirst) {
  World world([](const auto&) { return Saying(kAnswer); });
  world.pins_episodes = true;
  const auto episode = world.Open(), other = world.Open();
  object body = Continue(world, episode.api_key(), Body({Msg("user", "hi")}));
  body = Continue(world, episode.api_key(), std::move(body));
  Continue(world, other.api_key(), Body({Msg("user", "hi")}));
  Continue(world, episode.api_key(), std::move(body));
  EXPECT_THAT(Preferred(world), ElementsAre(-1, 0, -1, 0));
  for (const v1::GenerateRequest& request : world.engine->requests()) {
    EXPECT_EQ(request.min_version(), 3) << "the window's law stays";
  }
}

TEST(PinnedEpisodes, AreOffByDefaultAndForEvaluations) {
  World world([](const auto&) { return Saying(kAnswer); });
  Continue(world, world.Open().api_key(), Body({Msg("user", "hi")}));
  EXPECT_THAT(Preferred(world), ElementsAre(-2));
  World evaluated([](const auto&) { return Saying(kAnswer); });
  evaluated.pins_episodes = true;
  evaluated.admission.purpose = v1::PURPOSE_EVAL;
  Continue(evaluated, evaluated.Open().api_key(), Body({Msg("user", "hi")}));
  EXPECT_FALSE(evaluated.engine->requests()[0].has_preferred_version());
}

TEST(PinnedEpisodes, MoveToTheLaterVersionThatTheEngineHasInstead) {
  std::atomic<int64_t> version{0};
  World world([&](const auto&) {
    Script script = Saying(kAnswer);
    script.first_version = version;
    return script;
  });
  world.pins_episodes = true;
  const auto episode = world.Open();
  object body = Continue(world, episode.api_key(), Body({Msg("user", "hi")}));
  // After a restart, the recorded version counts, which is that of the last id here.
  ASSERT_TRUE(world.Restart().ok());
  version = 7;
  body = Continue(world, episode.api_key(), std::move(body));
  Continue(world, episode.api_key(), std::move(body));
  EXPECT_THAT(Preferred(world), ElementsAre(-1, 2, 7));
}

TEST(PinnedEpisodes, KeepTheirVersionWhenAnEngineHasNotLoadedIt) {
  std::atomic<int64_t> version{5};
  World world([&](const auto&) {
    Script script = Saying(kAnswer);
    script.first_version = version;
    return script;
  });
  world.pins_episodes = true;
  const auto episode = world.Open();
  object body = Continue(world, episode.api_key(), Body({Msg("user", "hi")}));
  version = 4;  // another engine's newest
  body = Continue(world, episode.api_key(), std::move(body));
  Continue(world, episode.api_key(), std::move(body));
  EXPECT_THAT(Preferred(world), ElementsAre(-1, 5, 5));
}

TEST(PinnedEpisodes, TheRestOfACallPrefersTheVersionOfItsIds) {
  std::atomic<int> asked{0};
  World world([&](const auto&) {
    Script script = Saying(kAnswer);
    if (++asked > 1) return script;
    script.text = "an ans";
    script.end_of_turn = false;
    script.error = absl::UnavailableError("the engine is gone");
    return script;
  });
  world.pins_episodes = true;
  const auto episode = world.Open();
  Continue(world, episode.api_key(), Body({Msg("user", "hi")}));
  EXPECT_THAT(Preferred(world), ElementsAre(-1, 1));
}

}  // namespace
}  // namespace ingot::gateway
