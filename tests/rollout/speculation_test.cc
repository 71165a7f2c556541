// The parts of speculation without an engine: costs, the choice of drafts, and the search for equal text.
#include "rollout/speculation/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/rng.h"
#include "rollout/engine/engine_options.h"
#include "rollout/engine/sequence.h"
#include "rollout/speculation/given_drafter.h"
#include "rollout/speculation/history_drafter.h"
#include "rollout/speculation/speculator.h"
#include "rollout/speculation/token_history.h"

namespace ingot::rollout {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Survival = SpeculationPolicy::Survival;

TEST(StepCostTest, BeforeAnyStepTheFixedPartCostsAsMuchAsEightRows) {
  EXPECT_DOUBLE_EQ(StepCost().Of(8) / StepCost().Of(0), 2);
}

TEST(StepCostTest, FindsTheLineThroughManySteps) {
  StepCost cost;
  for (int i = 0; i < 400; ++i) cost.Add(1 + i % 8, 0.010 + 0.003 * (1 + i % 8));
  EXPECT_NEAR(cost.Of(4), 0.022, 1e-4);
  EXPECT_NEAR(cost.Of(8) - cost.Of(1), 0.021, 2e-3);
}

TEST(StepCostTest, OneSlowStepIsNotBelieved) {
  StepCost cost;
  for (int i = 0; i < 100; ++i) cost.Add(1 + i % 4, 0.01);
  cost.Add(4, 10);
  EXPECT_LT(cost.Of(4), 0.011);
}

TEST(StepCostTest, NeverGivesANegativeCost) {
  StepCost cost;
  for (int i = 0; i < 300; ++i) cost.Add(i % 2 == 0 ? 1 : 64, i % 2 == 0 ? 0.02 : 0.001);
  for (const double rows : {0.0, 1.0, 64.0, 1e4}) EXPECT_GE(cost.Of(rows), 0) << rows;
  cost.Add(1, std::nan(""));
  cost.Add(1, -1);
  EXPECT_TRUE(std::isfinite(cost.Of(1)));
}

SpeculationPolicy Measured(double fixed, double per_row, double min_gain = 0.05) {
  SpeculationPolicy policy(min_gain);
  for (int i = 0; i < 1000; ++i) policy.Measured(1 + i % 64, fixed + per_row * (1 + i % 64));
  return policy;
}

TEST(SpeculationPolicyTest, TakesCheapDraftsAndStopsWhereTheyStopPaying) {
  // By hand: (1 + .8 + .64 + ... + .8^k) / (10 + 1 + k) is largest at k = 7: 4.16 / 18. At 6, 3.95 / 17; at 8, 4.33 / 19.
  SpeculationPolicy policy = Measured(10, 1);
  const std::vector<Survival> one = {{.drafts = 20, .acceptance = 0.8}};
  const std::vector<int32_t> plan = policy.Plan(one, /*rows=*/1, /*free_rows=*/64);
  double best = 0;
  int32_t best_count = 0;
  for (int32_t k = 0; k <= 20; ++k) {
    const double rate = (1 - std::pow(0.8, k + 1)) / 0.2 / (11 + k);
    if (rate > best) best = rate, best_count = k;
  }
  EXPECT_NEAR(plan[0], best_count, 1);
  EXPECT_GT(plan[0], 2);
}

TEST(SpeculationPolicyTest, TakesNoneWhereARowCostsAsMuchAsAnId) {
  SpeculationPolicy policy = Measured(0.5, 1);
  const std::vector<Survival> many(64, {.drafts = 8, .acceptance = 0.9});
  EXPECT_THAT(policy.Plan(many, 64, 64), Each(0));
}

TEST(SpeculationPolicyTest, TakesNoneBelowTheLeastGain) {
  SpeculationPolicy policy = Measured(10, 1, /*min_gain=*/3);
  EXPECT_THAT(policy.Plan(std::vector<Survival>{{.drafts = 8, .acceptance = 0.9}}, 1, 64), ElementsAre(0));
}

TEST(SpeculationPolicyTest, GoesByLikelihoodAndThenByAge) {
  SpeculationPolicy policy = Measured(100, 1);
  const std::vector<Survival> three = {
      {.drafts = 8, .acceptance = 0.5}, {.drafts = 8, .acceptance = 0.9}, {.drafts = 8, .acceptance = 0.5}};
  // .9, .81, .73, .66, .59, .53, .5 of the first one.
  EXPECT_THAT(policy.Plan(three, 3, 7), ElementsAre(1, 6, 0));
}

TEST(SpeculationPolicyTest, NeverExceedsTheRowsOrTheDrafts) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SpeculationPolicy policy(seed % 3 == 0 ? -1 : 0.05);
    std::vector<Survival> requests(1 + base::DeriveSeed(seed, 0) % 20);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].drafts = static_cast<int32_t>(base::DeriveSeed(seed, 10 + i) % 9);
      requests[i].acceptance = base::UniformAt(seed, 100 + i) * 1.2 - 0.1;
    }
    requests[0].acceptance = std::numeric_limits<double>::quiet_NaN();
    const auto free = static_cast<int64_t>(base::DeriveSeed(seed, 1) % 30);
    for (int step = 0; step < 70; ++step) {
      const std::vector<int32_t> plan = policy.Plan(requests, std::ssize(requests), free);
      ASSERT_EQ(plan.size(), requests.size());
      for (size_t i = 0; i < plan.size(); ++i) ASSERT_LE(plan[i], requests[i].drafts);
      ASSERT_LE(std::accumulate(plan.begin(), plan.end(), int64_t{0}), free);
    }
  }
}

TEST(SpeculationPolicyTest, MeasuresTheOtherPlanOnceInAWhile) {
  const std::vector<Survival> many(64, {.drafts = 8, .acceptance = 0.9});
  SpeculationPolicy off = Measured(0.5, 1), on = Measured(1000, 1);
  int with = 0, without = 0;
  for (int step = 0; step < 640; ++step) {
    const std::vector<int32_t> few = off.Plan(many, 64, 64), all = on.Plan(many, 64, 64);
    const int64_t drafts = std::accumulate(few.begin(), few.end(), int64_t{0});
    EXPECT_LE(drafts, 8);
    with += drafts > 0;
    without += std::accumulate(all.begin(), all.end(), int64_t{0}) == 0;
  }
  EXPECT_EQ(with, 10);
  EXPECT_EQ(without, 10);
}

std::vector<int32_t> Guess(TokenHistory& history, std::vector<int32_t> tokens, size_t most, int32_t match = -1) {
  std::vector<int32_t> guess;
  const int32_t length = history.Continue(tokens, most, &guess);
  if (match >= 0) {
    EXPECT_EQ(length, match);
  }
  return guess;
}

TEST(TokenHistoryTest, ContinuesTheLongestMatchByTheMostFrequentId) {
  TokenHistory history(1024, 3, 8);
  history.Append({}, std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  history.Append({}, std::vector<int32_t>{9, 2, 3, 4, 7, 7});
  history.Append({}, std::vector<int32_t>{8, 2, 3, 4, 7, 1});
  EXPECT_THAT(Guess(history, {2, 3, 4}, 8, 3), ElementsAre(7, 1)) << "two of three say 7, and the newest of those 1";
  EXPECT_THAT(Guess(history, {1, 2, 3, 4}, 1, 4), ElementsAre(5)) << "the longer match";
  EXPECT_THAT(Guess(history, {5, 5, 5}, 8, 0), IsEmpty());
  EXPECT_THAT(Guess(history, {3, 4}, 8, 0), IsEmpty()) << "shorter than min_match";
}

TEST(TokenHistoryTest, GoesOnInTheNextRecordOfTheSameText) {
  TokenHistory history(1024, 3, 4);
  const std::vector<int32_t> text = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  history.Append({}, std::span(text).first(5));
  history.Append(std::span(text).first(5), std::span(text).subspan(5));
  EXPECT_THAT(Guess(history, {1, 2, 3}, 20), ElementsAre(4, 5, 6, 7, 8, 9));
}

TEST(TokenHistoryTest, DoesNotMatchAcrossRecords) {
  TokenHistory history(1024, 3, 8);
  history.Append({}, std::vector<int32_t>{1, 2});
  history.Append({}, std::vector<int32_t>{3, 4, 5});
  EXPECT_THAT(Guess(history, {1, 2, 3}, 4), IsEmpty());
}

// Against a search through everything that the ring still has.
TEST(TokenHistoryTest, EveryGuessIsStoredTextAfterAnEqualContext) {
  TokenHistory history(1024, 2, 5);
  std::vector<std::vector<int32_t>> records;
  for (uint64_t round = 0; round < 600; ++round) {
    std::vector<int32_t> record(1 + base::DeriveSeed(round, 0) % 40);
    for (size_t i = 0; i < record.size(); ++i) record[i] = static_cast<int32_t>(base::DeriveSeed(round, 1 + i) % 5);
    history.Append({}, record);
    records.push_back(record);
    std::vector<int32_t> tail;
    for (size_t i = 0; i < 6; ++i) tail.push_back(static_cast<int32_t>(base::DeriveSeed(round, 100 + i) % 5));
    std::vector<int32_t> guess;
    const int32_t match = history.Continue(tail, 1, &guess);
    if (guess.empty()) continue;
    std::vector<int32_t> wanted(tail.end() - match, tail.end());
    wanted.push_back(guess[0]);
    const bool stored = std::any_of(records.begin(), records.end(), [&](const std::vector<int32_t>& text) {
      return std::search(text.begin(), text.end(), wanted.begin(), wanted.end()) != text.end();
    });
    ASSERT_TRUE(stored) << "round " << round;
  }
}

TEST(TokenHistoryTest, ForgetsTheOldest) {
  TokenHistory history(1024, 3, 8);
  history.Append({}, std::vector<int32_t>{90, 91, 92, 93});
  EXPECT_THAT(Guess(history, {90, 91, 92}, 1), ElementsAre(93));
  for (int i = 0; i < 200; ++i) history.Append({}, std::vector<int32_t>{i % 50, 1, 2, 3, 4, 5});
  EXPECT_THAT(Guess(history, {90, 91, 92}, 1), IsEmpty());
  EXPECT_THAT(Guess(history, {1, 2, 3}, 2), ElementsAre(4, 5));
}

Sequence Request(std::vector<int32_t> prompt) {
  Sequence sequence;
  sequence.tokens = std::move(prompt);
  sequence.prompt_size = sequence.tokens.size();
  return sequence;
}

Draft Asked(Drafter& drafter, const Sequence& sequence, size_t most = 8) {
  Draft draft;
  const Drafter::Ask ask{&sequence, most, &draft};
  drafter.Propose(std::span(&ask, 1));
  return draft;
}

void Grow(Drafter& drafter, Sequence& sequence, const std::vector<int32_t>& ids) {
  sequence.tokens.insert(sequence.tokens.end(), ids.begin(), ids.end());
  drafter.Sampled(sequence, ids.size());
}

TEST(HistoryDrafterTest, GuessesWhatAnotherMemberOfTheGroupSampled) {
  HistoryDrafter drafter({});
  Sequence first = Request({1, 2, 3, 4}), second = Request({1, 2, 3, 4});
  drafter.Begun(first, 0);
  Grow(drafter, first, {5, 6, 7, 8, 9});
  drafter.Ended(first);
  drafter.Begun(second, 4);
  EXPECT_THAT(Asked(drafter, second).ids, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(Asked(drafter, second, 2).ids, ElementsAre(5, 6));
}

TEST(HistoryDrafterTest, GuessesFromTheRequestsOwnPrompt) {
  HistoryDrafter drafter({});
  Sequence request = Request({1, 2, 3, 4, 5, 6, 9, 1, 2, 3});
  drafter.Begun(request, 0);
  EXPECT_THAT(Asked(drafter, request, 3).ids, ElementsAre(4, 5, 6));
}

TEST(HistoryDrafterTest, LearnsFromGuessesThatWereNotVerified) {
  HistoryDrafter drafter({});
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 60; ++i) text.push_back(i);
  Sequence source = Request(text), right = Request({0, 1, 2}), wrong = Request({0, 1, 2});
  drafter.Begun(source, 0);
  drafter.Begun(right, 3);
  drafter.Begun(wrong, 3);
  for (int32_t id = 3; id < 20; ++id) {
    Asked(drafter, right);
    Grow(drafter, right, {id});
  }
  EXPECT_GT(Asked(drafter, right).acceptance, 0.7);
  for (int i = 0; i < 20; ++i) {
    Asked(drafter, wrong);
    Grow(drafter, wrong, {1000 + i, 0, 1, 2});
  }
  EXPECT_LT(Asked(drafter, wrong).acceptance, 0.4);
}

TEST(HistoryDrafterTest, KnowsNothingOfRequestsThatItHasNotSeen) {
  HistoryDrafter drafter({});
  Sequence stranger = Request({1, 2, 3});
  EXPECT_THAT(Asked(drafter, stranger).ids, IsEmpty());
  drafter.Sampled(stranger, 1);
  drafter.Ended(stranger);
}

TEST(GivenDrafterTest, GivesTheRestOfTheExpectedIds) {
  GivenDrafter drafter;
  Sequence request = Request({1, 2});
  EXPECT_THAT(Asked(drafter, request).ids, IsEmpty());
  request.draft_ids = {5, 6, 7};
  EXPECT_THAT(Asked(drafter, request).ids, ElementsAre(5, 6, 7));
  request.tokens.push_back(5);
  EXPECT_THAT(Asked(drafter, request, 1).ids, ElementsAre(6));
  request.tokens.insert(request.tokens.end(), {6, 7, 8, 9});
  EXPECT_THAT(Asked(drafter, request).ids, IsEmpty());
}

TEST(SpeculationOptionsTest, RejectWhatContradictsItself) {
  const auto fault = [](auto change) {
    EngineOptions options;
    change(options.speculation);
    return std::string(options.Validate().message());
  };
  EXPECT_EQ(fault([](auto&) {}), "");
  EXPECT_EQ(fault([](auto& o) { o.drafters = {}; }), "");
  EXPECT_THAT(fault([](auto& o) { o.drafters = {"eagle"}; }), HasSubstr("speculation.drafters has 'eagle'"));
  EXPECT_THAT(fault([](auto& o) { o.drafters = {"given", "given"}; }), HasSubstr("twice"));
  EXPECT_THAT(fault([](auto& o) { o.max_drafts = 0; }), HasSubstr("max_drafts"));
  EXPECT_THAT(fault([](auto& o) { o.min_gain = std::nan(""); }), HasSubstr("min_gain"));
  EXPECT_THAT(fault([](auto& o) { o.history_tokens = 0; }), HasSubstr("history_tokens"));
  EXPECT_THAT(fault([](auto& o) { o.min_match = 9; }), HasSubstr("min_match is 9: it must be at most"));
}

}  // namespace
}  // namespace ingot::rollout
