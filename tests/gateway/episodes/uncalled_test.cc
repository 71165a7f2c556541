// Tests opened episodes without calls: how they are counted, how they end, and which error a late client gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "base/hostile_text.h"
#include "base/printable.h"
#include "gateway/episodes/open_episodes.h"
#include "gateway/fakes.h"

namespace ingot::gateway {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kKey[] = "an-admin-key-of-some-length";

class Uncalled : public ::testing::Test {
 protected:
  Uncalled()
      : world_([](const auto&) {
          Script script;
          script.text = "ok";
          return script;
        }) {}

  absl::Status Chat(const v1::EpisodeOpenResponse& episode) {
    return world_.Chat(episode.api_key(), Body({Msg("user", "1+2?")})).status;
  }
  v1::EpisodeOpenResponse OpenAs(const std::string& runner) {
    v1::EpisodeOpenRequest request;
    request.set_runner(runner);
    request.set_incarnation("1");
    return world_.gateway().OpenEpisode(request).value();
  }
  void TickAfter(seconds time) {
    world_.clock.Advance(time);
    world_.gateway().Tick();
  }
  void AwaitOpen(int64_t count) {
    while (world_.gateway().Status().open_episodes() != count) std::this_thread::yield();
  }
  absl::StatusOr<v1::EndUncalledResponse> End(const std::string& id, const std::string& key = kKey) {
    v1::EndUncalledRequest request;
    request.set_episode_id(id);
    request.set_admin_key(key);
    return world_.gateway().EndUncalled(request);
  }
  void UseKeyFile() {
    const std::string path = ::testing::TempDir() + "/uncalled.key";
    std::ofstream(path) << kKey << "\n";
    chmod(path.c_str(), 0600);
    world_.options.admin_key_file = path;
  }
  v1::EpisodeOpenResponse OpenWithKey() {
    v1::EpisodeOpenRequest request;
    request.set_admin_key(kKey);
    return world_.gateway().OpenEpisode(request).value();
  }

  World world_;
};

TEST_F(Uncalled, EndAfterTheLimitAsLostAndTheLateClientIsTold) {
  const auto dead = world_.Open(), alive = world_.Open();
  TickAfter(seconds(200));
  ASSERT_TRUE(Chat(alive).ok());
  TickAfter(seconds(99));
  EXPECT_EQ(world_.gateway().Status().open_episodes(), 2) << "299 s";
  TickAfter(seconds(2));
  AwaitOpen(1);
  const v1::Episode stored = world_.pool.episode(dead.episode_id());
  EXPECT_EQ(stored.state(), v1::EPISODE_FENCED) << "the sample is tried again, and no attempt of it has failed";
  EXPECT_EQ(stored.cause(), "never_called");
  ASSERT_EQ(world_.admission.ended().size(), 1u);
  EXPECT_EQ(world_.admission.ended()[0].state(), v1::EPISODE_FENCED);
  for (int restarted = 0; restarted < 2; ++restarted) {
    const std::string said(Chat(dead).message());
    if (restarted == 0) {
      EXPECT_THAT(said,
                  HasSubstr("no call within 300 s of the opening (gateway.episode_first_call_s); open a new one"));
    }
    const absl::Status rewarded = world_.Reward(dead, 1);  // also for an end that only the pool remembers
    EXPECT_EQ(HttpStatusOf(rewarded), 410);
    EXPECT_THAT(std::string(rewarded.message()), HasSubstr("gateway.episode_first_call_s"));
    if (restarted == 0) {
      ASSERT_TRUE(world_.Restart().ok());
    }
  }
  EXPECT_TRUE(Chat(alive).ok());
}

TEST_F(Uncalled, OtherEndsTellTheAgentNothing) {
  const auto episode = world_.Open();
  ASSERT_TRUE(world_.End(episode, v1::EPISODE_FAILED, "the verifier's own words").ok());
  EXPECT_THAT(std::string(Chat(episode).message()), testing::Not(HasSubstr("verifier")));
}

TEST_F(Uncalled, OfARunnerMayTakeLongerAndDoNotCount) {
  const auto installs = OpenAs("agents");
  EXPECT_EQ(world_.gateway().Status().uncalled_episodes(), 0);
  TickAfter(seconds(3000));
  EXPECT_EQ(world_.gateway().Status().open_episodes(), 1);
  EXPECT_TRUE(Chat(installs).ok());
}

TEST_F(Uncalled, StayWithoutALimitUntilTheOtherLimits) {
  world_.options.episode_first_call_s = 0;
  world_.Open();
  TickAfter(seconds(3599));
  EXPECT_EQ(world_.gateway().Status().open_episodes(), 1);
  TickAfter(seconds(2));
  AwaitOpen(0);
  EXPECT_EQ(world_.admission.ended().at(0).state(), v1::EPISODE_FAILED) << "episode_idle_s";
}

TEST_F(Uncalled, FinishIfTheyWereRewarded) {
  const auto judged = world_.Open();
  ASSERT_TRUE(world_.Reward(judged, 0.5).ok());
  TickAfter(seconds(301));
  AwaitOpen(0);
  EXPECT_EQ(world_.pool.episode(judged.episode_id()).state(), v1::EPISODE_FINISHED);
}

TEST_F(Uncalled, AreCountedTheOldestFirst) {
  const auto first = world_.Open();
  world_.clock.Advance(seconds(100));
  const auto second = world_.Open(), calls = world_.Open();
  world_.clock.Advance(seconds(61));
  ASSERT_TRUE(Chat(calls).ok());
  for (int restarted = 0; restarted < 2; ++restarted) {
    const v1::GatewayStatusResponse status = world_.gateway().Status();
    EXPECT_EQ(status.uncalled_episodes(), 2) << "a recorded call counts at the next gateway";
    ASSERT_EQ(status.uncalled_size(), 2);
    if (restarted == 0) {
      EXPECT_EQ(status.oldest_uncalled_ms(), 161'000);
      EXPECT_EQ(status.uncalled(0).episode_id(), first.episode_id());
      EXPECT_EQ(status.uncalled(0).age_ms(), 161'000);
      EXPECT_EQ(status.uncalled(1).episode_id(), second.episode_id());
      EXPECT_EQ(status.uncalled(1).ref().sample_index(), 1);
      EXPECT_EQ(status.uncalled(1).task_id(), "t1");
      EXPECT_THAT(world_.gateway().MetricsText(), HasSubstr("\ningot_gateway_uncalled_episodes 2\n"));
      EXPECT_THAT(world_.gateway().MetricsText(), HasSubstr("\ningot_gateway_oldest_uncalled_episode_seconds 161\n"));
      ASSERT_TRUE(world_.Restart().ok());
    }
  }
}

TEST_F(Uncalled, TheListHasTheOldestHundred) {
  for (int i = 0; i < 103; ++i) world_.Open();
  EXPECT_EQ(world_.gateway().Status().uncalled_episodes(), 103);
  EXPECT_EQ(world_.gateway().Status().uncalled_size(), 100);
}

TEST_F(Uncalled, TheOwnerEndsOneOrAll) {
  UseKeyFile();
  const auto one = OpenWithKey(), two = OpenWithKey(), three = OpenWithKey(), calls = OpenWithKey();
  ASSERT_TRUE(Chat(calls).ok());
  EXPECT_EQ(End(one.episode_id())->ended(), 1);
  EXPECT_THAT(std::string(Chat(one).message()),
              HasSubstr("the run's owner ended it before its first call; open a new"));
  EXPECT_EQ(End("")->ended(), 2);
  EXPECT_EQ(End("")->ended(), 0);
  EXPECT_EQ(world_.gateway().Status().open_episodes(), 1);
  for (const auto& ended : world_.admission.ended()) EXPECT_EQ(ended.state(), v1::EPISODE_FENCED);
  EXPECT_THAT(world_.gateway().MetricsText(), HasSubstr("\ningot_gateway_episodes_never_called_total 3\n"));
  EXPECT_TRUE(Chat(calls).ok());
}

TEST_F(Uncalled, OnlyTheOwnerEndsThem) {
  UseKeyFile();
  const auto episode = OpenWithKey();
  for (const std::string& id : {episode.episode_id(), std::string()}) {
    EXPECT_EQ(HttpStatusOf(End(id, "").status()), 401);
    const absl::Status wrong = End(id, episode.api_key()).status();
    EXPECT_EQ(HttpStatusOf(wrong), 403) << "an agent ends no other agent's episode";
    EXPECT_THAT(std::string(wrong.message()), HasSubstr("wrong key: ending an episode that made no call needs"));
  }
  EXPECT_EQ(world_.gateway().Status().open_episodes(), 1);
}

TEST_F(Uncalled, ThatTheOwnerCannotEndAreErrors) {
  const auto calls = world_.Open(), over = world_.Open(), runners = OpenAs("agents");
  ASSERT_TRUE(Chat(calls).ok());
  ASSERT_TRUE(world_.End(over, v1::EPISODE_FAILED).ok());
  const absl::Status called = End(calls.episode_id()).status();
  EXPECT_EQ(HttpStatusOf(called), 409);
  EXPECT_THAT(std::string(called.message()), HasSubstr("has made a call"));
  EXPECT_EQ(HttpStatusOf(End(runners.episode_id()).status()), 409);
  EXPECT_THAT(std::string(End(runners.episode_id()).status().message()), HasSubstr("belongs to agents.recipes"));
  EXPECT_EQ(HttpStatusOf(End(over.episode_id()).status()), 410);
  EXPECT_THAT(std::string(End(over.episode_id()).status().message()), HasSubstr("has already ended"));
  for (const std::string& hostile : base::HostileTexts()) {
    if (hostile.empty()) continue;  // empty = all
    const absl::Status unknown = End(hostile).status();
    EXPECT_EQ(HttpStatusOf(unknown), 404);
    EXPECT_LT(unknown.message().size(), 300u);
    EXPECT_TRUE(base::IsPrintable(std::string(unknown.message()))) << unknown;
  }
  EXPECT_EQ(world_.gateway().Status().open_episodes(), 2);
}

// The end was requested when the episode had no call, but its first call arrived before the end began.
TEST_F(Uncalled, AnEpisodeWhoseCallComesFirstStays) {
  v1::Episode record;
  record.set_episode_id("e");
  record.set_purpose(v1::PURPOSE_TRAIN);
  v1::EpisodeLimits limits;
  limits.set_max_calls(4);
  Episode episode(record, limits, false, false, std::nullopt, world_.clock.Now(), world_.clock);
  const Episode::RequestedEnd asked = NeverCalledEnd(episode, "no call");
  EXPECT_TRUE(episode.uncalled_since().has_value());
  ASSERT_TRUE(episode.BeginCall(nullptr, world_.clock.Now()).ok());
  EXPECT_FALSE(episode.uncalled_since().has_value());
  EXPECT_EQ(HttpStatusOf(episode.StartEnd(asked, seconds(1)).status()), 409);
  episode.EndCall(nullptr, 0, {}, world_.clock.Now());
  EXPECT_TRUE(episode.idle_since().has_value()) << "it is open";
}

}  // namespace
}  // namespace ingot::gateway
