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

namespace ingot::gateway::opening_test {
namespace {

using base::json::array;
using base::json::object;

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

// Like `ingot serve`, whose clients often share a key.
struct Served : World {
  Served() : World(Say) {
    with_admission = false;
    options.session_per_conversation = true;
  }
  // Returns the session where the call is recorded.
  std::string Ask(array messages, Headers headers = {}, const char* dialect = "chat.completions") {
    const auto reply = World::Ask(dialect, "none", base::PrintJson(Body(std::move(messages))), std::move(headers));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    return pool.calls().back().episode_id();
  }
};

TEST(Sessions, AreOfAConversationWhereClientsShareAKey) {
  Served world;
  const array first = {Msg("system", "be short"), Msg("user", "one")},
              other = {Msg("system", "be short"), Msg("user", "two")};
  const std::string one = world.Ask(first);
  const std::string two = world.Ask(other);
  EXPECT_NE(one, two);
  array longer = first;
  longer.push_back(Msg("assistant", "ok"));
  longer.push_back(Msg("user", "go on"));
  EXPECT_EQ(world.Ask(longer), one);
  EXPECT_FALSE(world.pool.calls().back().parent_call_id().empty());
  EXPECT_NE(world.Ask({Msg("system", "be long"), Msg("user", "one")}), one);
  EXPECT_EQ(world.gateway().Status().open_episodes(), 3);
}

TEST(Sessions, AreOfTheNameThatAClientGivesToItsConversations) {
  Served world;
  const auto named = [](const char* agent) {
    Headers headers;
    headers.Add("x-claude-code-session-id", "s");
    if (agent != nullptr) headers.Add("x-claude-code-agent-id", agent);
    return headers;
  };
  const std::string main = world.Ask({Msg("user", "one")}, named(nullptr));
  EXPECT_EQ(world.Ask({Msg("user", "two")}, named("helper")), main);
  EXPECT_NE(world.Ask({Msg("user", "one")}), main);
}

TEST(Sessions, TakePromptsThatAreNoConversationsTogether) {
  Served world;
  const auto prompt = [&world](const char* text) {
    const auto reply = world.World::Ask("completions", "none", base::PrintJson(object{{"prompt", text}}));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    return world.pool.calls().back().episode_id();
  };
  const std::string one = prompt("a");
  EXPECT_EQ(prompt("b"), one);
  EXPECT_NE(world.Ask({Msg("user", "a")}), one);
}

TEST(Sessions, HoldTheTokensOfOneTogether) {
  Served world;
  world.options.max_tokens_per_session = 1000;
  std::vector<std::string> sessions;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    sessions.push_back(world.Ask({Msg("user", std::string(400, letter))}));
    while (world.gateway().Status().active_calls() != 0) std::this_thread::yield();
    world.clock.Advance(std::chrono::seconds(1));
  }
  world.gateway().Tick();
  while (world.gateway().Status().open_episodes() > 2) std::this_thread::yield();
  for (size_t i = 0; i < sessions.size(); ++i) {  // the longest idle ones have ended
    EXPECT_EQ(world.pool.episode(sessions[i]).state(), i < 2 ? v1::EPISODE_FINISHED : v1::EPISODE_OPEN) << i;
  }
  world.gateway().Tick();
  EXPECT_EQ(world.gateway().Status().open_episodes(), 2);
}

TEST(Sessions, EndWithTheirServer) {
  Served world;
  const std::string session = world.Ask({Msg("user", "one")});
  const v1::EpisodeOpenResponse episode = world.Open();
  world.gateway().Shutdown();
  world.gateway().EndSessions();
  EXPECT_EQ(world.pool.episode(session).state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(world.pool.episode(episode.episode_id()).state(), v1::EPISODE_OPEN) << "it is its owner's to end";
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
  for (size_t i = 0; i <= Incarnations::kMaxPast + 1; ++i) seen.See("agents", std::to_string(i));
  EXPECT_EQ(seen.See("agents", "1"), Incarnations::Start::kPast);
  EXPECT_EQ(seen.See("agents", "0"), Incarnations::Start::kNewer) << "it is forgotten";
  seen.See("silent", "1");
  for (size_t i = 0; i < 2 * Incarnations::kMaxRunners; ++i) {
    seen.See("outside " + std::to_string(i), "1");
    seen.See("agents", "0");
  }
  EXPECT_EQ(seen.runners(), Incarnations::kMaxRunners);
  EXPECT_EQ(seen.NewestOf("silent"), std::nullopt);
  EXPECT_EQ(seen.NewestOf("agents"), "0") << "it was seen all the time";
}

}  // namespace
}  // namespace ingot::gateway::opening_test
