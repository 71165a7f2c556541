// The choice of a request's engine: predicted prefixes, pending prompts, speeds, and the episode's last engine.
#include "rollout/routing/router.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/config.h"

namespace ingot::rollout {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

std::vector<int32_t> Ids(int first, int count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

PrefixKeys Keys(const std::vector<int32_t>& ids, int64_t pinned = -1) {
  PrefixKeys keys(pinned);
  keys.Append(ids);
  return keys;
}

class RouterTest : public testing::Test {
 protected:
  explicit RouterTest(RouterOptions options = {.load_weight = 0}) : router_(options, 2) {}

  Router::Sent Send(const PrefixKeys& prompt, uint64_t lineage = 0) {
    return router_.Send(prompt, lineage, all_, now_);
  }
  // Runs a request to its end. It takes `took` until the first token.
  size_t RunOne(const PrefixKeys& prompt, uint64_t lineage = 0, nanoseconds took = milliseconds(100),
                int64_t cached = 0) {
    Router::Sent sent = Send(prompt, lineage);
    Finish(sent, prompt, took, cached);
    return sent.engine;
  }
  void Finish(Router::Sent& sent, const PrefixKeys& whole, nanoseconds took, int64_t cached = 0) {
    now_ += took;
    router_.FirstToken(sent, now_);
    router_.Answered(sent, whole, cached, /*timed=*/true, now_);
    router_.End(sent);
  }

  Router router_;
  std::vector<size_t> all_ = {0, 1};
  nanoseconds now_ = seconds(1000);
};

TEST(PrefixKeysTest, PiecesGiveTheKeysOfTheWhole) {
  const std::vector<int32_t> ids = Ids(5, 400);
  for (const size_t cut : {0u, 1u, 63u, 64u, 65u, 200u, 399u, 400u}) {
    PrefixKeys pieces;
    pieces.Append(std::span(ids).first(cut));
    pieces.Append(std::span(ids).subspan(cut));
    EXPECT_EQ(pieces.keys(), Keys(ids).keys()) << cut;
    EXPECT_EQ(pieces.tokens(), 400);
  }
  EXPECT_EQ(Keys(ids).keys().size(), 6u);
  EXPECT_NE(Keys(ids).keys(), Keys(ids, /*pinned=*/3).keys());
  std::vector<int32_t> other = ids;
  ++other[0];
  for (size_t i = 0; i < 6; ++i) EXPECT_NE(Keys(ids).keys()[i], Keys(other).keys()[i]) << "a key stands for all before";
}

TEST_F(RouterTest, APromptGoesWhereItsPrefixIs) {
  const size_t first = RunOne(Keys(Ids(0, 4000)));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(RunOne(Keys(Ids(0, 4000 + i))), first);
}

TEST_F(RouterTest, AnAnswerIsPartOfThePrefix) {
  Router::Sent sent = Send(Keys(Ids(0, 64)));
  Finish(sent, Keys(Ids(0, 4000)), milliseconds(100));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(RunOne(Keys(Ids(0, 4100))), sent.engine);
}

TEST_F(RouterTest, PrefixesAreForgottenAfterTwoMinutesWithoutUse) {
  const size_t first = RunOne(Keys(Ids(0, 4000)));
  now_ += seconds(119);
  Router::Sent sent = Send(Keys(Ids(0, 4000)));
  EXPECT_EQ(sent.engine, first);
  EXPECT_EQ(sent.pending, 4000 % 64);
  router_.End(sent);
  now_ += seconds(121);
  sent = Send(Keys(Ids(0, 4000)));
  EXPECT_EQ(sent.pending, 4000);
  router_.End(sent);
}

TEST_F(RouterTest, ASwapForgetsThePrefixesOfItsEngine) {
  router_.SawVersion(0, 1);
  router_.SawVersion(1, 1);
  const size_t first = RunOne(Keys(Ids(0, 4000)));
  router_.SawVersion(first, 1);
  Router::Sent sent = Send(Keys(Ids(0, 4000)));
  EXPECT_LT(sent.pending, 64) << "the same version again changes nothing";
  router_.End(sent);
  router_.SawVersion(first, 2);
  sent = Send(Keys(Ids(0, 4000)));
  EXPECT_EQ(sent.pending, 4000);
  router_.End(sent);
}

TEST_F(RouterTest, ASwapKeepsThePrefixesOfAPinnedVersion) {
  router_.SawVersion(0, 1);
  router_.SawVersion(1, 1);
  const size_t first = RunOne(Keys(Ids(0, 4000), /*pinned=*/1));
  router_.SawVersion(first, 2);
  Router::Sent sent = Send(Keys(Ids(0, 4000), 1));
  EXPECT_LT(sent.pending, 64);
  router_.End(sent);
  router_.Forget(first);
  sent = Send(Keys(Ids(0, 4000), 1));
  EXPECT_EQ(sent.pending, 4000) << "a restarted engine has no cache";
  router_.End(sent);
}

TEST_F(RouterTest, APromptAvoidsTheLongerQueue) {
  Router::Sent busy = Send(Keys(Ids(0, 50'000)));
  for (int i = 1; i < 20; ++i) {
    Router::Sent sent = Send(Keys(Ids(100'000 * i, 100)));
    EXPECT_NE(sent.engine, busy.engine);
    router_.End(sent);
  }
  router_.FirstToken(busy, now_ + seconds(5));
  std::vector<int> chosen(2);
  for (int i = 1; i < 40; ++i) {
    Router::Sent sent = Send(Keys(Ids(100'000 * i, 100)));
    ++chosen[sent.engine];
    router_.End(sent);
  }
  EXPECT_GT(chosen[busy.engine], 5) << "its prompt is computed";
  router_.End(busy);
}

TEST_F(RouterTest, AMemberJoinsTheSiblingWhosePromptIsBeingComputed) {
  const Router::Sent first = Send(Keys(Ids(0, 6400)));
  for (int i = 0; i < 7; ++i) EXPECT_EQ(Send(Keys(Ids(0, 6400))).engine, first.engine) << i;
}

TEST_F(RouterTest, ASlowEngineGetsFewerPrompts) {
  for (int i = 0; i < 40; ++i) {  // teaches both speeds: engine 1 takes ten times as long
    for (const size_t engine : all_) {
      const PrefixKeys prompt = Keys(Ids(10'000 * i, 1000));
      Router::Sent sent = router_.Send(prompt, 0, std::span(&engine, 1), now_);
      Finish(sent, prompt, engine == 0 ? milliseconds(100) : milliseconds(1000));
    }
  }
  std::vector<Router::Sent> sent;
  std::vector<int> chosen(2);
  for (int i = 0; i < 33; ++i) {
    sent.push_back(Send(Keys(Ids(1'000'000 + 10'000 * i, 1000))));
    ++chosen[sent.back().engine];
  }
  EXPECT_NEAR(chosen[0], 30, 2) << "queues take equally long";
}

TEST_F(RouterTest, AnEpisodeStaysUntilItsEngineCostsMuchMore) {
  const PrefixKeys prompt = Keys(Ids(0, 20));  // too short to be found
  const size_t first = RunOne(prompt, /*lineage=*/7);
  std::vector<Router::Sent> blocking;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(RunOne(prompt, 7), first);
  EXPECT_EQ(router_.stats().stayed, 10);
  Router::Sent busy = router_.Send(Keys(Ids(500, 20'000)), 0, std::span(&first, 1), now_);
  EXPECT_NE(RunOne(prompt, 7), first);
  EXPECT_EQ(router_.stats().moved, 1);
  router_.End(busy);
  EXPECT_NE(RunOne(prompt, 7), first) << "its last engine is the other one now";
}

TEST_F(RouterTest, OnlyCandidatesAreChosen) {
  const size_t first = RunOne(Keys(Ids(0, 4000)), 3);
  const size_t other = 1 - first;
  EXPECT_EQ(router_.Send(Keys(Ids(0, 4000)), 3, std::span(&other, 1), now_).engine, other);
}

TEST_F(RouterTest, AnEngineThatJoinsIsChosen) {
  std::vector<Router::Sent> sent = {Send(Keys(Ids(0, 5000))), Send(Keys(Ids(10'000, 5000)))};
  router_.AddEngine();
  all_.push_back(2);
  EXPECT_EQ(Send(Keys(Ids(20'000, 5000))).engine, 2u);
}

TEST_F(RouterTest, ItReportsTheErrorOfItsEstimates) {
  const PrefixKeys prompt = Keys(Ids(0, 1000));
  Router::Sent sent = Send(prompt);
  EXPECT_NEAR(sent.estimate, 0.1, 1e-9) << "1000 tokens at the first guess of 0.1 ms";
  Finish(sent, prompt, milliseconds(200));
  EXPECT_NEAR(router_.stats().cost_error(), 0.5, 1e-9);
  sent = Send(Keys(Ids(5000, 1000)));
  EXPECT_NEAR(sent.estimate, 0.2, 1e-9) << "it has learned the speed";
}

class FewestTest : public RouterTest {
 protected:
  FewestTest() : RouterTest({.policy = RouterPolicy::kFewest}) {}
};

TEST_F(FewestTest, PromptsGoWhereTheFewestAreInFlight) {
  std::vector<int> chosen(2);
  for (int i = 0; i < 10; ++i) ++chosen[Send(Keys(Ids(0, 4000))).engine];
  EXPECT_EQ(chosen[0], 5);
}

TEST(RouterOptionsTest, KeysAreBoundWithTheirLimits) {
  RouterOptions options;
  base::Schema schema;
  schema.Section("router", options);
  EXPECT_TRUE(schema.Set("router.policy=fewest").ok());
  EXPECT_EQ(options.policy, RouterPolicy::kFewest);
  EXPECT_FALSE(schema.Set("router.policy=sticky").ok());
  EXPECT_FALSE(schema.Set("router.stay=0.5").ok());
  EXPECT_FALSE(schema.Set("router.load_weight=-1").ok());
}

}  // namespace
}  // namespace ingot::rollout
