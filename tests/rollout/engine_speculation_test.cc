// Drafts in the engine, on the model of plain code: what they save, and that they change nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "base/rng.h"
#include "rollout/mixed_drafter.h"
#include "rollout/rig.h"
#include "rollout/seen.h"

namespace ingot::rollout::engine_speculation_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Verifies every draft, whatever a pass of the model costs.
EngineOptions VerifyAll() {
  EngineOptions options = Options();
  options.speculation.min_gain = -1;
  return options;
}

// Rounds of requests at once, without speculation and with a drafter that guesses in every way.
void ExpectTheSameWithDrafts(EngineOptions options, int rounds) {
  EngineOptions plain = options;
  plain.speculation.drafters = {};
  options.speculation.min_gain = -1;
  MixedDrafter::Answers answers;
  std::vector<Seen> expected;
  std::vector<v1::GenerateRequest> asks;
  {
    Rig rig(plain, FakeSnapshot(1, 1001), {2});
    ASSERT_TRUE(rig.Update(2, /*retain=*/true).ok());
    ASSERT_TRUE(rig.Update(3).ok());
    for (int i = 0; i < 14 * rounds; ++i) {
      asks.push_back(RandomAsk(static_cast<uint64_t>(i)));
      expected.push_back(Call(*rig.engine, asks.back()));
      answers[asks.back().sampling().seed()] = expected.back().ids;
    }
  }
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<MixedDrafter>(answers, static_cast<int32_t>(kVocab), 5));
  Rig rig(options, FakeSnapshot(1, 1001), {2}, base::Clock::Real(), std::move(drafters));
  ASSERT_TRUE(rig.Update(2, /*retain=*/true).ok());
  ASSERT_TRUE(rig.Update(3).ok());
  for (int round = 0; round < rounds; ++round) {
    std::deque<Collect> results(14);
    std::vector<std::unique_ptr<Client::Request>> requests;
    for (size_t i = 0; i < 14; ++i) {
      requests.push_back(rig.engine->Generate(asks[14 * static_cast<size_t>(round) + i], results[i].OnChunk()));
    }
    for (size_t i = 0; i < 14; ++i) {
      const size_t at = 14 * static_cast<size_t>(round) + i;
      ASSERT_TRUE(SeenOf(results[i]) == expected[at]) << "request " << at;
    }
  }
  const v1::EngineStatusResponse status = *rig.engine->Status();
  ASSERT_EQ(status.drafters_size(), 1);
  EXPECT_GT(status.drafters(0).accepted(), 0);
  EXPECT_LT(status.drafters(0).accepted(), status.drafters(0).drafted());
  EXPECT_GE(status.drafters(0).proposed(), status.drafters(0).drafted());
  EXPECT_GT(status.drafters(0).dropped(), 0) << "some ids are outside the vocabulary";
  EXPECT_EQ(status.kv_blocks_used(), 0);
}

TEST(SpeculationTest, NoDraftChangesAnIdOrALogprob) { ExpectTheSameWithDrafts(Options(), 30); }

TEST(SpeculationTest, NoDraftChangesAnythingWithoutACache) {
  EngineOptions options = Options();
  options.prefix_cache = false;
  ExpectTheSameWithDrafts(options, 12);
}

TEST(SpeculationTest, NoDraftChangesAnythingUnderPreemption) {
  EngineOptions options = Options();
  options.kv_cache_tokens = 96;
  ExpectTheSameWithDrafts(options, 12);
}

TEST(SpeculationTest, NoDraftChangesAnythingInSmallBatches) {
  EngineOptions options = Options();
  options.max_running = 3;
  options.max_batch_tokens = 5;
  ExpectTheSameWithDrafts(options, 12);
}

v1::DrafterStatus Given(Rig& rig) {
  const v1::EngineStatusResponse status = *rig.engine->Status();
  for (const v1::DrafterStatus& drafter : status.drafters()) {
    if (drafter.name() == "given") return drafter;
  }
  return {};
}

TEST(SpeculationTest, AReplayedCallNeedsFewPasses) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 100);
  const Seen first = Call(*rig.engine, ask);
  const int64_t before = rig.runner->passes;
  ask.mutable_draft_ids()->Add(first.ids.begin(), first.ids.end());
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  EXPECT_TRUE(SeenOf(result) == first);
  EXPECT_LE(rig.runner->passes - before, 6) << "of at most 32 rows";
  EXPECT_EQ(result.last.drafted_tokens(), result.last.accepted_tokens());
  EXPECT_GE(result.last.accepted_tokens(), 90);
  EXPECT_EQ(Given(rig).dropped(), 0);
}

TEST(SpeculationTest, ForcedIdsAreVerifiedManyAtATime) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 100);
  for (int32_t i = 0; i < 60; ++i) ask.add_forced_ids(i % 20);
  const Seen seen = Call(*rig.engine, ask);
  EXPECT_EQ(seen.ids, std::vector<int32_t>(ask.forced_ids().begin(), ask.forced_ids().end()));
  EXPECT_LE(rig.runner->passes, 4);
  EngineOptions plain = Options();
  plain.speculation.drafters = {};
  Rig slow(plain, FakeSnapshot(1, 1001));
  EXPECT_TRUE(Call(*slow.engine, ask) == seen);
  EXPECT_EQ(slow.runner->passes, 60);
}

// As after a move to another engine: the ids are kept as far as they are still the draws.
TEST(SpeculationTest, GivenIdsOfAnotherVersionAreKeptUpToTheFirstOther) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 50);
  const Seen old = Call(*rig.engine, ask);
  ASSERT_TRUE(rig.Update(2).ok());
  const Seen fresh = Call(*rig.engine, ask);
  ASSERT_NE(fresh.ids, old.ids);
  ask.mutable_draft_ids()->Add(old.ids.begin(), old.ids.end());
  EXPECT_TRUE(Call(*rig.engine, ask) == fresh);
  const auto kept = std::mismatch(old.ids.begin(), old.ids.end(), fresh.ids.begin(), fresh.ids.end()).first;
  EXPECT_EQ(Given(rig).dropped(), old.ids.end() - kept);
}

TEST(SpeculationTest, ManyMoreDraftsThanTheContextDoNoHarm) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 1000);
  ask.mutable_sampling()->set_ignore_eos(true);
  const Seen seen = Call(*rig.engine, ask);
  ASSERT_EQ(seen.ids.size(), 197u);
  EXPECT_EQ(seen.finish, v1::FINISH_LENGTH);
  ask.mutable_draft_ids()->Add(seen.ids.begin(), seen.ids.end());
  for (int i = 0; i < 5000; ++i) ask.add_draft_ids(i % 24);
  EXPECT_TRUE(Call(*rig.engine, ask) == seen);
  EXPECT_EQ(Given(rig).dropped(), 5000);
}

TEST(SpeculationTest, ProposalsThatAreNotWorthVerifyingAreCounted) {
  EngineOptions options = Options();
  options.speculation.min_gain = 1000;
  Rig rig(options, FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 10);
  const Seen seen = Call(*rig.engine, ask);
  ask.mutable_draft_ids()->Add(seen.ids.begin(), seen.ids.end());
  EXPECT_TRUE(Call(*rig.engine, ask) == seen);
  EXPECT_GT(Given(rig).proposed(), 0);
  EXPECT_EQ(Given(rig).drafted(), 0);
  EXPECT_EQ(Given(rig).dropped(), 0) << "they were sampled, one per pass";
}

TEST(SpeculationTest, DraftsThatTheGrammarForbidsAreNotKept) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 30);
  ask.mutable_sampling()->add_stop_token_ids(23);
  ask.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex("(ab|cd){3,8}");
  const Seen seen = Call(*rig.engine, ask);
  ASSERT_EQ(seen.status, absl::OkStatus());
  for (int i = 0; i < 30; ++i) ask.add_draft_ids(i % 2 == 0 ? 20 : 21);
  EXPECT_TRUE(Call(*rig.engine, ask) == seen);
  ask.mutable_draft_ids()->Assign(seen.ids.begin(), seen.ids.end());
  EXPECT_TRUE(Call(*rig.engine, ask) == seen);
}

TEST(SpeculationTest, DraftIdsOutsideTheVocabularyAreAnError) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  for (const int32_t id : {-1, 24, std::numeric_limits<int32_t>::max()}) {
    v1::GenerateRequest ask = Ask({1, 2, 3}, 5);
    ask.add_draft_ids(id);
    const absl::Status status = Call(*rig.engine, ask).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("draft_ids has "));
  }
}

TEST(SpeculationTest, AModelOfNaNFailsTheCallAsWithoutDrafts) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  rig.runner->poisoned = true;
  v1::GenerateRequest ask = Ask({1, 2, 3}, 5);
  for (int32_t i = 0; i < 5; ++i) ask.add_draft_ids(i);
  const Seen seen = Call(*rig.engine, ask);
  EXPECT_EQ(seen.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(seen.status.message()), HasSubstr("NaN"));
  EXPECT_TRUE(seen.ids.empty());
  EXPECT_EQ(rig.engine->Status()->kv_blocks_used(), 0);
}

// Attention multiplies a hidden key's value by 0, and 0 times NaN is NaN.
TEST(SpeculationTest, ADraftThatGivesNaNSpoilsNothing) {
  Rig rig(VerifyAll(), FakeSnapshot(1, 1001));
  rig.runner->spoils = 20;
  v1::GenerateRequest ask = Ask({1, 2, 3}, 40);
  (*ask.mutable_sampling()->mutable_logit_bias())[20] = -100;
  const Seen seen = Call(*rig.engine, ask);
  ASSERT_EQ(seen.ids.size(), 40u);
  ask.mutable_draft_ids()->Add(seen.ids.begin(), seen.ids.begin() + 10);
  for (int i = 0; i < 5; ++i) ask.add_draft_ids(20);
  EXPECT_TRUE(Call(*rig.engine, ask) == seen);
  ask.mutable_prompt_ids()->Add(seen.ids.begin(), seen.ids.begin() + 9);  // finds the blocks of the call in the cache
  ask.clear_draft_ids();
  EXPECT_EQ(Call(*rig.engine, ask).status, absl::OkStatus());
}

TEST(SpeculationTest, AModelThatCannotTakeBackRowsGetsNoDrafts) {
  Rig rig(Options(), FakeSnapshot(1, 1001), {}, base::Clock::Real(), {}, /*can_take_back=*/false);
  v1::GenerateRequest ask = Ask({1, 2, 3}, 20);
  ask.add_draft_ids(1);
  EXPECT_EQ(Call(*rig.engine, ask).ids.size(), 20u);
  EXPECT_EQ(rig.engine->Status()->drafters_size(), 0);
}

// A call that is cut anywhere and continued with first_index, and one that is not cut.
TEST(FirstIndexTest, ContinuesEveryKindOfCallAsIfItHadNotStopped) {
  Rig rig(Options(), FakeSnapshot(1, 1001), {2});
  ASSERT_TRUE(rig.Update(2, /*retain=*/true).ok());
  ASSERT_TRUE(rig.Update(3).ok());
  int cuts = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const v1::GenerateRequest ask = RandomAsk(seed);
    const Seen whole = Call(*rig.engine, ask);
    ASSERT_EQ(whole.status, absl::OkStatus());
    if (whole.ids.size() < 2) continue;
    const auto cut = static_cast<std::ptrdiff_t>(1 + base::DeriveSeed(seed, 1000) % (whole.ids.size() - 1));
    v1::GenerateRequest rest = ask;
    rest.mutable_prompt_ids()->Add(whole.ids.begin(), whole.ids.begin() + cut);
    rest.set_first_index(cut);
    if (seed % 2 == 0) rest.mutable_draft_ids()->Add(whole.ids.begin() + cut, whole.ids.end());
    const Seen seen = Call(*rig.engine, rest);
    ASSERT_EQ(seen.status, absl::OkStatus()) << seed;
    ASSERT_EQ(seen.ids, std::vector<int32_t>(whole.ids.begin() + cut, whole.ids.end())) << seed;
    ASSERT_EQ(seen.logprobs, std::vector<float>(whole.logprobs.begin() + cut, whole.logprobs.end())) << seed;
    ASSERT_EQ(seen.finish, whole.finish) << seed;
    ASSERT_EQ(seen.stop_string, whole.stop_string) << seed;
    ASSERT_EQ(seen.acted, whole.acted) << seed;
    ++cuts;
  }
  EXPECT_GT(cuts, 80);
}

TEST(FirstIndexTest, BeyondThePromptOrTheLimitsIsAnError) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  for (const int64_t first : {int64_t{-1}, int64_t{3}, int64_t{1} << 62, std::numeric_limits<int64_t>::min()}) {
    v1::GenerateRequest ask = Ask({1, 2, 3}, 5);
    ask.set_first_index(first);
    EXPECT_EQ(Call(*rig.engine, ask).status.code(), absl::StatusCode::kInvalidArgument) << first;
  }
  v1::GenerateRequest ask = Ask({1, 2, 3}, 2);
  ask.set_first_index(2);
  EXPECT_THAT(std::string(Call(*rig.engine, ask).status.message()), HasSubstr("first_index is 2; it must be 0 to 1"));
  ask = Ask({1, 2, 3}, 9);
  ask.set_first_index(2);
  ask.add_forced_ids(1);
  EXPECT_THAT(std::string(Call(*rig.engine, ask).status.message()), HasSubstr("first_index is 2 of 1 forced_ids"));
  ask = Ask({1, 2, 3}, 9, 1, /*pinned=*/1);
  ask.set_first_index(1);
  ask.set_score_ids(1);
  EXPECT_THAT(std::string(Call(*rig.engine, ask).status.message()), HasSubstr("score_ids excludes"));
  ask = Ask({1, 2, 20}, 9);
  ask.set_first_index(1);
  ask.mutable_sampling()->add_stop_token_ids(11);
  ask.mutable_sampling()->mutable_grammar()->add_alternatives()->add_parts()->set_regex("[a-f]{2,20}");
  EXPECT_THAT(std::string(Call(*rig.engine, ask).status.message()), HasSubstr("does not allow id 20"));
}

}  // namespace
}  // namespace ingot::rollout::engine_speculation_test
