// Advantages, loss weights, the schedule, options: tables worked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "makers.h"
#include "trainer/advantages/advantage.h"
#include "trainer/batch.h"
#include "trainer/episode_metrics.h"
#include "trainer/options.h"
#include "trainer/schedule.h"

namespace ingot::trainer::core_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTiny = 1e-12;

// The advantages of episodes of one turn each.
std::vector<std::vector<double>> OneTurn(const std::vector<std::vector<double>>& rewards, const AdvantageRule& rule) {
  std::vector<std::vector<EpisodeReturn>> groups;
  for (const auto& group : rewards) {
    groups.emplace_back();
    for (const double r : group) groups.back().push_back({r, {r}});
  }
  std::vector<std::vector<double>> advantages;
  for (const GroupAdvantages& group : Advantages(groups, rule)) {
    advantages.emplace_back();
    for (const auto& turns : group.turns) advantages.back().push_back(turns.at(0));
  }
  return advantages;
}

TEST(Advantages, SubtractTheGroupMean) {
  const auto a = OneTurn({{1, 0, 0, 0}, {0.5, 0.5}}, {"mean", "none"});
  EXPECT_THAT(a[0], ElementsAre(0.75, -0.25, -0.25, -0.25));
  EXPECT_THAT(a[1], ElementsAre(0, 0));
}

TEST(Advantages, LeaveOneOutComparesWithTheOthers) {
  // Others of the first: (0 + 0 + 2) / 3 = 2/3; of the last: (1 + 0 + 0) / 3 = 1/3.
  const auto a = OneTurn({{1, 0, 0, 2}}, {"leave_one_out", "none"});
  EXPECT_THAT(a[0], ElementsAre(DoubleNear(1.0 / 3, kTiny), DoubleNear(-1, kTiny), DoubleNear(-1, kTiny),
                                DoubleNear(5.0 / 3, kTiny)));
}

TEST(Advantages, LeaveOneOutOfAGroupOfOneHasBaselineZero) {
  EXPECT_THAT(OneTurn({{0.7}}, {"leave_one_out", "none"})[0], ElementsAre(0.7));
  EXPECT_THAT(OneTurn({{0.7}}, {"mean", "none"})[0], ElementsAre(0.0));
}

TEST(Advantages, TheBatchBaselineComparesGroups) {
  // (1 + 0 + 4 + 3) / 4 = 2
  const auto a = OneTurn({{1, 0}, {4, 3}}, {"batch", "none"});
  EXPECT_THAT(a[0], ElementsAre(-1, -2));
  EXPECT_THAT(a[1], ElementsAre(2, 1));
}

TEST(Advantages, TheLengthBaselineWeighsSamplesByTheirTokens) {
  // (10 * 1 + 30 * 0 + 60 * 0.5) / 100 = 0.4
  std::vector<EpisodeReturn> group = {{1, {1}, 10}, {0, {0}, 30}, {0.5, {0.5}, 60}};
  const auto turns = Advantages({group}, {"length", "none"})[0].turns;
  EXPECT_NEAR(turns[0][0], 0.6, kTiny);
  EXPECT_NEAR(turns[1][0], -0.4, kTiny);
  EXPECT_NEAR(turns[2][0], 0.1, kTiny);
  // Without tokens, the mean 0.5.
  for (EpisodeReturn& episode : group) episode.tokens = 0;
  EXPECT_NEAR(Advantages({group}, {"length", "none"})[0].turns[0][0], 0.5, kTiny);
}

TEST(Advantages, MeanNormalizationDividesByTheGroupsMean) {
  // Means 0.25 and 2.
  const auto a = OneTurn({{1, 0, 0, 0}, {3, 1}}, {"mean", "mean"});
  EXPECT_THAT(a[0], ElementsAre(3, -1, -1, -1));
  EXPECT_THAT(a[1], ElementsAre(0.5, -0.5));
}

TEST(Advantages, AMeanThatIsNotAboveZeroCarriesNoSignal) {
  for (const auto& rewards : {std::vector<double>{0, 0}, std::vector<double>{1, -1}, std::vector<double>{-1, -3}}) {
    EXPECT_THAT(OneTurn({rewards}, {"mean", "mean"})[0], ElementsAre(0, 0));
  }
  EXPECT_TRUE(Advantages({{{-1, {-1}}, {-3, {-3}}}}, {"mean", "mean", true})[0].filtered);
  // In floating point their mean is 1.85e-17.
  EXPECT_THAT(OneTurn({{0.1, 0.2, -0.3}}, {"mean", "mean"})[0], ElementsAre(0, 0, 0));
}

TEST(Advantages, WithoutBaselineAreTheRewards) {
  EXPECT_THAT(OneTurn({{0.5, 0.5}}, {"none", "none"})[0], ElementsAre(0.5, 0.5));
}

TEST(Advantages, GroupNormalizationDividesByTheGroupsDeviation) {
  // Rewards 1, 0: population deviation 0.5, advantages +-0.5.
  const auto a = OneTurn({{1, 0}, {3, 3}}, {"mean", "group"});
  EXPECT_NEAR(a[0][0], 0.5 / (0.5 + 1e-6), kTiny);
  EXPECT_NEAR(a[0][1], -0.5 / (0.5 + 1e-6), kTiny);
  EXPECT_THAT(a[1], ElementsAre(0, 0));
}

TEST(Advantages, BatchNormalizationDividesByTheBatchsDeviation) {
  // Advantages 0.5, -0.5, 2, -2: mean 0, variance (0.25 + 0.25 + 4 + 4) / 4 = 2.125.
  const auto a = OneTurn({{1, 0}, {4, 0}}, {"mean", "batch"});
  const double scale = 1.0 / (std::sqrt(2.125) + 1e-6);
  EXPECT_NEAR(a[0][0], 0.5 * scale, kTiny);
  EXPECT_NEAR(a[1][1], -2 * scale, kTiny);
}

TEST(Advantages, FilteredGroupsCountInNoDeviation) {
  // With the equal group (1, 1) the deviation is sqrt((0.25 + 0.25 + 0 + 0) / 4); without it 0.5.
  EXPECT_NEAR(OneTurn({{1, 0}, {1, 1}}, {"mean", "batch", false})[0][0], 0.5 / (std::sqrt(0.125) + 1e-6), kTiny);
  EXPECT_NEAR(OneTurn({{1, 0}, {1, 1}}, {"mean", "batch", true})[0][0], 0.5 / (0.5 + 1e-6), kTiny);
  const auto filtered = Advantages({{{1, {1}}, {1, {1}}}, {{1, {1}}, {0, {0}}}}, {"mean", "none", true});
  EXPECT_TRUE(filtered[0].filtered);
  EXPECT_FALSE(filtered[1].filtered);
  // Equal returns that were earned at different turns do carry signal.
  EXPECT_FALSE(Advantages({{{1, {1, 0}}, {1, {1, 1}}}}, {"mean", "none", true})[0].filtered);
}

TEST(Advantages, EqualRewardsGiveExactlyZero) {
  // 0.1 has no exact mean in binary; its rounding must not become a gradient.
  for (const char* baseline : {"mean", "leave_one_out", "batch", "length"}) {
    for (const char* normalization : {"none", "group", "batch", "mean"}) {
      EXPECT_THAT(OneTurn({{0.1, 0.1, 0.1}}, {baseline, normalization})[0], ElementsAre(0, 0, 0));
    }
  }
}

TEST(Advantages, CreditIsTheReturnOrTheRewardToGo) {
  EXPECT_THAT(CreditTurns(1.0, {0.5, 0.0, -2.0}, "outcome").credits, ElementsAre(-0.5, -0.5, -0.5));
  EXPECT_THAT(CreditTurns(1.0, {0.5, 0.0, -2.0}, "reward_to_go").credits, ElementsAre(-0.5, -1.0, -1.0));
  EXPECT_THAT(CreditTurns(1.0, {}, "outcome").credits, ElementsAre());
  EXPECT_EQ(CreditTurns(1.0, {0.5, 0.0, -2.0}, "reward_to_go").value, -0.5);
}

TEST(Advantages, ADiscountCountsTheTurnsToAReward) {
  // Last turn: -2 + 1 = -1; before it 0 + 0.5 * -1 = -0.5; the first 0.5 + 0.5 * -0.5 = 0.25, which is the return.
  const EpisodeReturn earned = CreditTurns(1.0, {0.5, 0.0, -2.0}, "reward_to_go", 0.5);
  EXPECT_THAT(earned.credits, ElementsAre(0.25, -0.5, -1.0));
  EXPECT_EQ(earned.value, 0.25);
  // 0: what the turn itself earned. An episode without a turn has its outcome.
  EXPECT_THAT(CreditTurns(1.0, {0.5, 0.0, -2.0}, "reward_to_go", 0).credits, ElementsAre(0.5, 0.0, -1.0));
  EXPECT_EQ(CreditTurns(1.0, {}, "reward_to_go", 0.5).value, 1.0);
}

TEST(Advantages, TheSameRewardsInAnotherOrderAreTheSameReturn) {
  // 0.1 + 0.2 + 0.3 is 0.6 or 0.6000000000000001, as they are added.
  for (const char* credit : {"outcome", "reward_to_go"}) {
    const EpisodeReturn up = CreditTurns(0, {0.1, 0.2, 0.3}, credit), down = CreditTurns(0, {0.3, 0.2, 0.1}, credit);
    ASSERT_NE(up.value, down.value);
    for (const char* baseline : {"mean", "leave_one_out", "batch"}) {
      for (const char* normalization : {"none", "batch"}) {
        const auto group = Advantages({{up, up, down}}, {baseline, normalization, true})[0];
        EXPECT_TRUE(group.equal);
        EXPECT_EQ(group.filtered, std::string(credit) == "outcome");
        for (const auto& turns : group.turns) {
          EXPECT_EQ(turns[0], 0) << baseline << normalization << credit;
          EXPECT_LE(std::abs(turns[2]), 0.5 + kTiny);  // the rewards of earlier turns, not a million times them
        }
      }
    }
  }
}

TEST(Advantages, RewardToGoHasABaselineConstantInTheTurn) {
  // First sample: outcome 1, turns earned 0.5 and 0.25: to go 1.75, 1.25; return 1.75.
  // Second: outcome 0, one turn that earned -0.5: to go -0.5. Third: outcome 0.5 and nothing else, three turns.
  // Baselines, the others' mean return: (-0.5 + 0.5) / 2 = 0; (1.75 + 0.5) / 2 = 1.125; (1.75 - 0.5) / 2 = 0.625.
  std::vector<EpisodeReturn> group;
  group.push_back(CreditTurns(1, {0.5, 0.25}, "reward_to_go"));
  group.push_back(CreditTurns(0, {-0.5}, "reward_to_go"));
  group.push_back(CreditTurns(0.5, {0, 0, 0}, "reward_to_go"));
  const auto a = Advantages({group}, {"leave_one_out", "none"})[0].turns;
  EXPECT_THAT(a[0], ElementsAre(1.75, 1.25));
  EXPECT_THAT(a[1], ElementsAre(-1.625));
  EXPECT_THAT(a[2], ElementsAre(-0.125, -0.125, -0.125));
}

// A group of one term per column, in episodes of one turn.
std::vector<EpisodeReturn> OfTerms(const std::vector<double>& weights, const std::vector<std::vector<double>>& values) {
  std::vector<EpisodeReturn> group;
  for (const std::vector<double>& of_episode : values) {
    EpisodeReturn& episode = group.emplace_back();
    for (size_t k = 0; k < weights.size(); ++k) {
      episode.terms.push_back({weights[k], of_episode[k], {of_episode[k]}});
      episode.value += weights[k] * of_episode[k];
    }
    episode.credits = {episode.value};
  }
  return group;
}

const AdvantageRule kByTerms = {"mean", "terms", true};

TEST(AdvantagesByTerms, AreEachNormalizedInTheGroupThenSummedThenNormalizedOverTheBatch) {
  // First group: (1, 0) less 0.5 over 0.5 is +-1, (0, 4) less 2 over 2 is -+1; S = +-(1 - 2 * 1) = -+1.
  // Second: (1, 1) gives 0, (3, 0) gives +-1; S = +-2. Deviation of -1, 1, 2, -2: sqrt(10 / 4).
  const auto a = Advantages({OfTerms({1, 2}, {{1, 0}, {0, 4}}), OfTerms({1, 2}, {{1, 3}, {1, 0}})}, kByTerms);
  const double deviation = std::sqrt(2.5);
  EXPECT_NEAR(a[0].turns[0][0], -1 / deviation, 1e-5);
  EXPECT_NEAR(a[0].turns[1][0], 1 / deviation, 1e-5);
  EXPECT_NEAR(a[1].turns[0][0], 2 / deviation, 1e-5);
  EXPECT_NEAR(a[1].turns[1][0], -2 / deviation, 1e-5);
}

TEST(AdvantagesByTerms, TeachWhereTheSumsAreEqual) {
  // 1 * 1 + 2 * 0 and 1 * 0 + 2 * 0.5 are both 1.
  const auto group = OfTerms({1, 2}, {{1, 0}, {0, 0.5}});
  EXPECT_TRUE(Advantages({group}, {"mean", "group", true})[0].filtered);
  const auto a = Advantages({group}, kByTerms)[0];
  EXPECT_FALSE(a.equal);
  EXPECT_FALSE(a.filtered);
  EXPECT_NEAR(a.turns[0][0], -1, 1e-5);
  EXPECT_NEAR(a.turns[1][0], 1, 1e-5);
}

TEST(AdvantagesByTerms, DoNotDependOnTheScaleOfATerm) {
  const auto small = Advantages({OfTerms({1, 0.5}, {{1, 0.2}, {0, 0.7}, {1, 0.9}})}, kByTerms)[0];
  const auto large = Advantages({OfTerms({1, 0.5}, {{1, 200}, {0, 700}, {1, 900}})}, kByTerms)[0];
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(small.turns[i][0], large.turns[i][0], 1e-5);
}

TEST(AdvantagesByTerms, AGroupIsEqualIfEveryTermIs) {
  const auto equal = Advantages({OfTerms({1, 2}, {{0.1, 3}, {0.1, 3}, {0.1, 3}})}, kByTerms)[0];
  EXPECT_TRUE(equal.equal);
  EXPECT_TRUE(equal.filtered);
  EXPECT_THAT(equal.turns, ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(0)));
}

TEST(AdvantagesByTerms, ThatMirrorEachOtherGiveExactlyZero) {
  // 0.1, 0.2, 0.6 and the rest to 1: their deviations are the same, up to rounding, which must not become a gradient.
  const auto a = Advantages({OfTerms({1, 1}, {{0.1, 0.9}, {0.2, 0.8}, {0.6, 0.4}})}, kByTerms)[0];
  EXPECT_FALSE(a.equal);
  EXPECT_TRUE(a.filtered);
  EXPECT_THAT(a.turns, ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(0)));
}

TEST(AdvantagesByTerms, CreditTheTurnsOfEachTerm) {
  // A term that gives 1 at the first of two turns, or nothing: returns 1 and 0, to go 1, 0 and 0, 0. Baseline and
  // deviation are 0.5; so are the batch's of +-1, about.
  std::vector<EpisodeReturn> group(2);
  group[0] = CreditTurns(0, {1, 0}, "reward_to_go");
  group[1] = CreditTurns(0, {0, 0}, "reward_to_go");
  for (EpisodeReturn& episode : group) episode.terms.push_back({1, episode.value, episode.credits});
  const auto a = Advantages({group}, kByTerms)[0].turns;
  EXPECT_NEAR(a[0][0], 1, 1e-5);
  EXPECT_NEAR(a[0][1], -1, 1e-5);
  EXPECT_NEAR(a[1][0], -1, 1e-5);
}

TEST(AdvantagesByTerms, OfAGroupAreInNoDeviationIfItIsFiltered) {
  const auto equal = OfTerms({1}, {{2}, {2}}), other = OfTerms({1}, {{1}, {0}});
  EXPECT_NEAR(Advantages({equal, other}, {"mean", "terms", true})[1].turns[0][0], 1, 1e-5);
  EXPECT_NEAR(Advantages({equal, other}, {"mean", "terms", false})[1].turns[0][0], std::sqrt(2.0), 1e-5);
}

// Episode 0 (group 0): calls of 2 and 1 tokens. Episode 1 (group 0): 3 tokens. Episode 2 (group 1): 4. Episode 3
// (group 1): nothing sampled.
const std::vector<CallExtent> kCalls = {{0, 0, 2}, {0, 0, 1}, {1, 0, 3}, {2, 1, 4}, {3, 1, 0}};

TEST(TokenWeights, TokenIsTheMeanOverTheBatch) {
  EXPECT_THAT(TokenWeights(kCalls, "token"), ElementsAre(0.1, 0.1, 0.1, 0.1, 0));
}

TEST(TokenWeights, SequenceIsTheMeanOverEpisodesOfTheirMeans) {
  // Three episodes have tokens: 3, 3 and 4.
  EXPECT_THAT(TokenWeights(kCalls, "sequence"), ElementsAre(1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 12, 0));
}

TEST(TokenWeights, PromptIsTheMeanOverGroupsOfTheirMeans) {
  EXPECT_THAT(TokenWeights(kCalls, "prompt"), ElementsAre(1.0 / 12, 1.0 / 12, 1.0 / 12, 1.0 / 8, 0));
}

TEST(TokenWeights, ConstantDividesByAFixedNumber) {
  // Three episodes have tokens: 1 / (3 * 5) each, however long they are.
  EXPECT_THAT(TokenWeights(kCalls, "constant", 5), ElementsAre(1.0 / 15, 1.0 / 15, 1.0 / 15, 1.0 / 15, 0));
}

TEST(TokenWeights, SumToOneOverTheBatch) {
  for (const char* aggregation : {"token", "sequence", "prompt"}) {
    const auto weights = TokenWeights(kCalls, aggregation);
    double sum = 0;
    for (size_t i = 0; i < kCalls.size(); ++i) sum += weights[i] * static_cast<double>(kCalls[i].loss_tokens);
    EXPECT_NEAR(sum, 1.0, kTiny) << aggregation;
  }
}

TEST(LearningRate, FollowsTheTable) {
  OptimizerOptions options;
  options.learning_rate = 2.0;
  options.warmup_steps = 4;
  options.min_lr_ratio = 0.1;
  const int64_t total = 12;  // warm-up 0..3, then 8 steps down to 0.2
  struct Row {
    const char* decay;
    int64_t step;
    double rate;
  };
  const Row table[] = {
      {"cosine", 0, 0.5},
      {"cosine", 1, 1.0},
      {"cosine", 3, 2.0},
      {"cosine", 4, 2.0},
      {"cosine", 8, 1.1},
      {"cosine", 12, 0.2},
      {"cosine", 100, 0.2},
      {"linear", 3, 2.0},
      {"linear", 4, 2.0},
      {"linear", 6, 1.55},
      {"linear", 8, 1.1},
      {"linear", 12, 0.2},
      {"constant", 0, 0.5},
      {"constant", 4, 2.0},
      {"constant", 99, 2.0},
      // (1 + cos(pi / 4)) / 2 of the way between 2 and 0.2
      {"cosine", 6, 0.2 + 1.8 * 0.5 * (1 + std::sqrt(0.5))},
  };
  for (const Row& row : table) {
    options.decay = row.decay;
    EXPECT_NEAR(LearningRate(options, row.step, total), row.rate, 1e-12) << row.decay << " at " << row.step;
  }
}

TEST(LearningRate, WithoutWarmupStartsAtThePeak) {
  OptimizerOptions options;
  options.learning_rate = 1.0;
  EXPECT_DOUBLE_EQ(LearningRate(options, 0, 10), 1.0);
}

TEST(TrainerOptions, DefaultsAreValidAndFaultsAreNamed) {
  EXPECT_TRUE(TrainerOptions().Validate().ok());
  TrainerOptions options;
  options.loss_aggregation = "episode";
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("token, sequence, prompt"));
  options = {};
  options.sft.optimizer.learning_rate = 0;
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("sft: learning_rate"));
  options = {};
  options.optimizer.beta2 = std::nan("");
  EXPECT_FALSE(options.Validate().ok());
}

TEST(TrainerOptions, ContradictionsAreRejectedWithAReason) {
  const auto message = [](const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions options;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(message([](auto& o) { o.objective = "gspo"; }), HasSubstr("one loss term per sequence"));
  EXPECT_THAT(message([](auto& o) { o.objective = "pppo"; }), HasSubstr("cispo, ppo_clip, gspo, opmd, dpo"));
  EXPECT_THAT(message([](auto& o) { o.objective = "dpo", o.loss_aggregation = "sequence", o.group_size = 1; }),
              HasSubstr("needs pairs"));
  EXPECT_THAT(message([](auto& o) { o.group_size = 1; }), HasSubstr("every advantage is 0"));
  EXPECT_EQ(message([](auto& o) { o.group_size = 1, o.advantage_baseline = "batch"; }), "");
  EXPECT_THAT(message([](auto& o) { o.objective = "dpo", o.loss_aggregation = "sequence", o.kl_coefficient = 0.1; }),
              HasSubstr("dpo_beta"));
  EXPECT_THAT(message([](auto& o) { o.keep_every = 30; }), HasSubstr("keep_every is 30, and checkpoint_every is 20"));
  EXPECT_THAT(message([](auto& o) { o.keep_every = 20, o.checkpoint_every = 0; }), HasSubstr("checkpoint_every is 0"));
  EXPECT_EQ(message([](auto& o) { o.keep_every = 40; }), "");
  EXPECT_THAT(message([](auto& o) { o.importance_cap = 2; }), HasSubstr("already limits its importance weights"));
  EXPECT_THAT(message([](auto& o) { o.objective = "ppo_clip", o.importance_cap = 2, o.dual_clip = 3; }),
              HasSubstr("dual_clip has no effect"));
  EXPECT_THAT(message([](auto& o) { o.objective = "sapo", o.importance_cap = 2; }), HasSubstr("a gate on the ratio"));
  EXPECT_THAT(message([](auto& o) { o.sapo_tau_negative = 0; }), HasSubstr("sapo_tau_negative"));
  EXPECT_THAT(message([](auto& o) { o.dual_clip = 3; }), HasSubstr("ppo_clip"));
  EXPECT_THAT(message([](auto& o) { o.loss_constant_tokens = 3; }), HasSubstr("loss_constant_tokens"));
  EXPECT_THAT(message([](auto& o) { o.loss_aggregation = "constant"; }), HasSubstr("loss_constant_tokens"));
  EXPECT_THAT(message([](auto& o) { o.advantage_baseline = "none", o.advantage_normalization = "batch"; }),
              HasSubstr("advantage_normalization needs a baseline"));
  EXPECT_THAT(message([](auto& o) { o.advantage_baseline = "batch", o.advantage_normalization = "group"; }),
              HasSubstr("across groups"));
  EXPECT_THAT(message([](auto& o) { o.advantage_baseline = "batch", o.advantage_normalization = "mean"; }),
              HasSubstr("does not subtract"));
  EXPECT_THAT(message([](auto& o) { o.advantage_baseline = "length", o.group_size = 1; }),
              HasSubstr("every advantage is 0"));
  EXPECT_THAT(message([](auto& o) { o.turn_discount = 0.9; }), HasSubstr("advantage_credit to reward_to_go"));
  EXPECT_THAT(message([](auto& o) { o.turn_discount = 1.1, o.advantage_credit = "reward_to_go"; }),
              HasSubstr("in [0, 1]"));
  EXPECT_THAT(message([](auto& o) { o.advantage_baseline = "batch", o.advantage_normalization = "terms"; }),
              HasSubstr("leave_one_out, or length"));
  EXPECT_THAT(message([](auto& o) {
                o.objective = "dpo", o.loss_aggregation = "sequence", o.advantage_normalization = "terms";
              }),
              HasSubstr("another objective"));
  EXPECT_EQ(message([](auto& o) { o.advantage_normalization = "terms"; }), "");
  EXPECT_THAT(message([](auto& o) { o.advantage_normalization = "terms", o.advantage_groups = "role"; }),
              HasSubstr("change one of them"));
  EXPECT_THAT(message([](auto& o) { o.train_segments_max_age = 2; }), HasSubstr("train_segments max_age"));
  EXPECT_THAT(message([](auto& o) { o.reference_path = "x"; }), HasSubstr("nothing uses"));
  EXPECT_THAT(message([](auto& o) { o.reference_update_every = 5; }), HasSubstr("nothing uses"));
  EXPECT_THAT(
      message([](auto& o) { o.reference_update_every = 5, o.reference_kl_coefficient = 0.1, o.sharding = "layers"; }),
      HasSubstr("sharding to optimizer"));
  EXPECT_THAT(message([](auto& o) { o.kl_kind = "k4"; }), HasSubstr("k1, k2, k3, abs"));
  EXPECT_THAT(message([](auto& o) { o.kl_kind = "k2"; }), HasSubstr("both KL penalties are off"));
  EXPECT_EQ(message([](auto& o) { o.kl_kind = "k2", o.reference_kl_coefficient = 0.1; }), "");
}

TEST(TrainerOptions, MasksHoldTheRatioOneAndNeedAPolicyLoss) {
  const auto message = [](const std::function<void(TrainerOptions&)>& change) {
    TrainerOptions options;
    change(options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(message([](auto& o) { o.off_policy_mask.token_low = 1; }), HasSubstr("mask_token_ratio_low"));
  EXPECT_THAT(message([](auto& o) { o.off_policy_mask.token_high = 0.9; }), HasSubstr("mask_token_ratio_high"));
  EXPECT_THAT(message([](auto& o) { o.off_policy_mask.sequence_low = -1; }), HasSubstr("mask_sequence_ratio_low"));
  EXPECT_THAT(message([](auto& o) { o.off_policy_mask.sequence_high = INFINITY; }),
              HasSubstr("mask_sequence_ratio_high"));
  EXPECT_THAT(message([](auto& o) { o.off_policy_mask.opsm_delta = std::nan(""); }), HasSubstr("opsm_delta"));
  EXPECT_EQ(message([](auto& o) { o.off_policy_mask = {0.5, 5, 0.9, 1.1, 0.1}; }), "");
  EXPECT_THAT(message([](auto& o) { o.truncated = "mask"; }), HasSubstr("train, mask_call, mask_episode"));
  const auto dpo = [](TrainerOptions& o) { o.objective = "dpo", o.loss_aggregation = "sequence"; };
  EXPECT_THAT(message([&](auto& o) { dpo(o), o.off_policy_mask.opsm_delta = 0.1; }), HasSubstr("no importance ratio"));
  EXPECT_THAT(message([&](auto& o) { dpo(o), o.truncated = "mask_call"; }), HasSubstr("set truncated to train"));
}

// --- PrepareBatch ---

CallSpec Turn(std::vector<int32_t> context, std::vector<int32_t> sampled) {
  CallSpec call{std::move(context), std::move(sampled), {}, {}, {}, 1.0f};
  call.logprobs.assign(call.sampled.size(), -1.0f);
  return call;
}

TrainBatch OneGroup(std::vector<v1::EpisodeTree> episodes) {
  TrainBatch batch;
  batch.groups.push_back(MakeGroup(7, std::move(episodes)));
  return batch;
}

TEST(PrepareBatch, GivesEveryCallItsEpisodesAdvantage) {
  const TrainBatch batch = OneGroup({MakeEpisode("a", 1.0, {Turn({1, 2}, {3}), Turn({1, 2, 3, 4}, {5, 6})}),
                                     MakeEpisode("b", 0.0, {Turn({1, 2}, {4})})});
  const auto prepared = PrepareBatch(batch, {}, 10, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->advantages, ElementsAre(0.5, 0.5, -0.5));
  EXPECT_THAT(prepared->weights, ElementsAre(0.25, 0.25, 0.25));
  EXPECT_EQ(prepared->loss_tokens, 4);
  EXPECT_EQ(prepared->unmerged_tokens, 3 + 6 + 3);
  EXPECT_EQ(prepared->metrics.at("reward/batch_mean"), 0.5);
  EXPECT_EQ(prepared->metrics.at("response_length/mean"), 2);
  EXPECT_EQ(prepared->metrics.at("response_length/max"), 3);
  EXPECT_EQ(prepared->metrics.at("num_turns/mean"), 1.5);
  EXPECT_EQ(prepared->metrics.at("num_turns/max"), 2);
}

TEST(PrepareBatch, RewardMeanIsTheFeedsIfItHasOne) {
  TrainBatch batch = OneGroup({MakeEpisode("a", 1.0, {Turn({1}, {3})}), MakeEpisode("b", 0.0, {Turn({1}, {4})})});
  EXPECT_EQ(PrepareBatch(batch, {}, 10, 0)->metrics.at("reward/mean"), 0.5);
  batch.feed.set_reward_mean(0.9);
  batch.feed.set_reward_episodes(20);
  batch.feed.set_dropped_fraction(0.4);
  EXPECT_EQ(PrepareBatch(batch, {}, 10, 0)->metrics.at("reward/mean"), 0.9);
  EXPECT_EQ(PrepareBatch(batch, {}, 10, 0)->metrics.at("reward/frac_zero_std"), 0.4);
}

TEST(EpisodeMetrics, NoEpisodeHasNoReward) {
  StepMetrics metrics;
  EpisodeMetrics().Report(metrics);
  EXPECT_TRUE(std::isnan(metrics.at("reward/batch_mean")));
  EXPECT_TRUE(std::isnan(EpisodeMetrics().reward_mean()));
  EXPECT_EQ(metrics.at("num_turns/mean"), 0);
}

// 20 tokens of the second prompt were known, and the engine had 12 of them; of the third's 30, it had all.
TEST(EpisodeMetrics, TheRecomputeShareIsOfWhatEarlierCallsHadComputed) {
  v1::EpisodeTree tree;
  const auto add = [&](const char* id, const char* parent, int64_t context, int cached, int sampled) {
    v1::Call& call = *tree.add_calls();
    call.set_call_id(id);
    call.set_context_tokens(context);
    call.set_cached_tokens(cached);
    call.set_parent_call_id(parent);
    if (*parent != 0) call.set_continued_segments(1);
    call.add_sampled_keys(id);
    v1::Segment& segment = (*tree.mutable_segments())[base::Hex(id)];
    for (int i = 0; i < sampled; ++i) segment.add_token_ids(i);
  };
  add("a", "", 15, 4, 5);
  add("b", "a", 25, 12, 5);
  add("c", "b", 40, 39, 5);
  EpisodeMetrics episodes;
  episodes.AddEpisode(tree, 15);
  StepMetrics metrics;
  episodes.Report(metrics);
  EXPECT_DOUBLE_EQ(metrics.at("rollout/recompute_share"), 8.0 / 80);
}

TEST(PrepareBatch, CountsGroupsOfEqualRewardsThatAreTrained) {
  TrainBatch batch = OneGroup({MakeEpisode("a", 1.0, {Turn({1}, {3})}), MakeEpisode("b", 1.0, {Turn({1}, {4})})});
  batch.groups.push_back(
      MakeGroup(8, {MakeEpisode("c", 1.0, {Turn({1}, {3})}), MakeEpisode("d", 0.0, {Turn({1}, {4})})}));
  EXPECT_EQ(PrepareBatch(batch, {}, 10, 0)->metrics.at("reward/frac_zero_std"), 0.5);
  batch.feed.set_dropped_fraction(0.5);  // as many groups again, which the scheduler dropped
  EXPECT_EQ(PrepareBatch(batch, {}, 10, 0)->metrics.at("reward/frac_zero_std"), 0.75);
}

TEST(PrepareBatch, TheOutcomeIsWhatWasPostedWhateverTheTermsMakeOfIt) {
  v1::EpisodeTree right = MakeEpisode("a", 1.0, {Turn({1}, {3})}), wrong = MakeEpisode("b", 0.0, {Turn({1}, {4})});
  for (v1::EpisodeTree* const tree : {&right, &wrong}) {
    v1::TermValue& teacher = *tree->mutable_episode()->mutable_grade()->add_terms();
    teacher.set_term("teacher");
    (*teacher.mutable_measures())["reverse_kl"] = 0.25;
  }
  const auto prepared = PrepareBatch(OneGroup({right, wrong}), {}, 10, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->metrics.at("reward/outcome"), 0.5);
  EXPECT_EQ(prepared->metrics.at("reward/batch_mean"), 0);
  EXPECT_EQ(prepared->metrics.at("reward/term/teacher/reverse_kl"), 0.25);
}

TEST(PrepareBatch, RewardsOfCallsCountInTheBatchsMean) {
  v1::EpisodeTree tree = MakeEpisode("a", 0.0, {Turn({1}, {3})});
  (*tree.mutable_episode()->mutable_call_rewards())["a/0"] = 3.0;
  EXPECT_EQ(PrepareBatch(OneGroup({tree}), {}, 10, 0)->metrics.at("reward/batch_mean"), 3.0);
}

TEST(PrepareBatch, ResponseLengthCountsAllSampledTokens) {
  v1::EpisodeTree tree = MakeEpisode("a", 1.0, {Turn({1}, {3}), Turn({1, 3}, {4, 5})});
  tree.mutable_calls(1)->mutable_sampling()->set_grammar_acted(true);
  EXPECT_EQ(PrepareBatch(OneGroup({tree}), {}, 10, 0)->metrics.at("response_length/mean"), 3);
}

TEST(PrepareBatch, MeasuresStalenessPerTrainedToken) {
  CallSpec call = Turn({1}, {2, 3, 4});
  call.versions = {5, 5, 7};
  const auto prepared = PrepareBatch(OneGroup({MakeEpisode("a", 1.0, {call})}), {}, 10, 7);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_NEAR(prepared->metrics.at("async/staleness_mean"), 4.0 / 3, kTiny);
  EXPECT_EQ(prepared->metrics.at("async/staleness_max"), 2);
  EXPECT_THAT(prepared->staleness_histogram, ElementsAre(std::pair(0, 1), std::pair(2, 2)));
}

TEST(PrepareBatch, LeavesOutAndCountsCallsOfOtherPolicies) {
  v1::EpisodeTree a = MakeEpisode("a", 1.0, {Turn({1}, {3}), Turn({1, 3}, {4}), Turn({1, 3, 4}, {5})});
  a.mutable_calls(1)->set_weights(v1::WEIGHTS_EXTERNAL);
  a.mutable_calls(2)->mutable_sampling()->set_grammar_acted(true);
  v1::EpisodeTree fenced = MakeEpisode("f", 9.0, {Turn({1}, {3})});
  fenced.mutable_episode()->set_state(v1::EPISODE_FENCED);
  v1::EpisodeTree eval = MakeEpisode("e", 9.0, {Turn({1}, {3})});
  eval.mutable_episode()->set_purpose(v1::PURPOSE_EVAL);
  const auto prepared = PrepareBatch(OneGroup({a, MakeEpisode("b", 0.0, {Turn({1}, {6})}), fenced, eval}), {}, 10, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_EQ(prepared->calls.size(), 2u);
  EXPECT_EQ(prepared->calls[0].call_id, "a/0");
  EXPECT_EQ(prepared->calls[1].call_id, "b/0");
  EXPECT_THAT(prepared->advantages, ElementsAre(0.5, -0.5));
  EXPECT_EQ(prepared->metrics.at("batch/calls_left_out_weights"), 1);
  EXPECT_EQ(prepared->metrics.at("batch/calls_left_out_flagged"), 1);
  EXPECT_EQ(prepared->metrics.at("batch/episodes_left_out"), 2);
}

TEST(PrepareBatch, ReportsRewardsByDomainIfThereAreSeveral) {
  v1::EpisodeTree a = MakeEpisode("a", 1.0, {Turn({1}, {3})});
  a.mutable_episode()->mutable_task()->set_domain("math");
  const auto prepared = PrepareBatch(OneGroup({a, MakeEpisode("b", 0.0, {Turn({1}, {6})})}), {}, 10, 0);
  EXPECT_EQ(prepared->metrics.at("reward/batch_mean@domain:math"), 1.0);
  EXPECT_EQ(prepared->metrics.at("reward/batch_mean@domain:default"), 0.0);
  EXPECT_FALSE(prepared->metrics.contains("reward/batch_mean@scaffold:default"));
}

TEST(PrepareBatch, ReportsEpisodeMetricsByDomainAndScaffold) {
  v1::EpisodeTree a = MakeEpisode("a", 1.0, {Turn({1}, {3}), Turn({1, 3}, {4, 5}), Turn({1}, {7})});
  v1::Episode& one = *a.mutable_episode();
  one.mutable_task()->set_domain("math");
  one.set_scaffold("codex");
  one.set_opened_unix_ns(1'000'000'000);
  one.set_ended_unix_ns(3'500'000'000);
  (*one.mutable_signals())["agent/tool_error_rate"] = 0.25;
  (*one.mutable_signals())["lint"] = 4;
  (*one.mutable_signals())["agent/truncated_ratio"] = 100;  // by an agent: the trainer measures this one itself
  (*one.mutable_signals())["agent/mine"] = 5;
  a.mutable_calls(1)->set_parent_call_id(a.calls(0).call_id());
  a.mutable_calls(0)->set_finish(v1::FINISH_REPETITION);
  a.mutable_calls(1)->set_finish(v1::FINISH_LENGTH);
  a.mutable_calls(2)->set_fork_cause("retry");
  a.mutable_calls(2)->set_tool_call_malformed(true);
  v1::EpisodeTree b = MakeEpisode("b", 0.0, {Turn({1}, {6})});
  b.mutable_episode()->set_scaffold("opencode");
  const auto prepared = PrepareBatch(OneGroup({a, b}), {}, 10, 3);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const StepMetrics& m = prepared->metrics;
  EXPECT_EQ(m.at("num_turns/mean"), 2);
  EXPECT_EQ(m.at("num_turns/mean@domain:math"), 3);
  EXPECT_EQ(m.at("num_turns/max@scaffold:opencode"), 1);
  EXPECT_EQ(m.at("response_length/mean@scaffold:codex"), 4);
  EXPECT_EQ(m.at("async/staleness_max@domain:math"), 3);  // version 3 less the tokens' 0
  EXPECT_DOUBLE_EQ(m.at("agent/truncated_ratio@domain:math"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(m.at("agent/halted_ratio@domain:math"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(m.at("agent/paused_ratio"), 0);
  EXPECT_DOUBLE_EQ(m.at("agent/repeat_ratio@domain:math"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(m.at("agent/malformed_ratio"), 1.0 / 6);
  EXPECT_EQ(m.at("agent/parallel_branches@domain:math"), 2);
  EXPECT_EQ(m.at("agent/episode_seconds"), 2.5);  // of the one episode with known times
  EXPECT_EQ(m.at("agent/tool_error_rate"), 0.25);
  EXPECT_EQ(m.at("signal/lint"), 4);
  EXPECT_EQ(m.at("signal/agent/truncated_ratio"), 100);
  EXPECT_EQ(m.at("signal/agent/mine"), 5);
  EXPECT_FALSE(m.contains("agent/mine"));
  EXPECT_FALSE(m.contains("signal/lint@scaffold:opencode"));
}

// A call in slices is one call with the tokens of all of them, each at its version's age.
TEST(PrepareBatch, CallsInSlicesAreOneCall) {
  v1::EpisodeTree a = MakeEpisode("a", 1.0, {Turn({1}, {5, 6}), Turn({1}, {7})});
  v1::EpisodeTree b = MakeEpisode("b", 0.0, {Turn({1}, {8, 9, 4})});
  v1::Call& call = *a.mutable_calls(0);
  v1::Segment rest = a.segments().at(base::Hex(call.sampled_keys(0)));
  rest.mutable_versions(0)->set_version(2);
  const std::string key = tree::SegmentKey(rest);
  call.add_sampled_keys(key);
  (*a.mutable_segments())[base::Hex(key)] = rest;
  TrainerOptions options;
  const auto all = PrepareBatch(OneGroup({a, b}), options, 10, 3);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_DOUBLE_EQ(all->metrics.at("agent/paused_ratio"), 0.25) << "half of a's calls, none of b's";
  EXPECT_EQ(all->metrics.at("batch/calls"), 3);
  EXPECT_EQ(all->metrics.at("batch/loss_tokens"), 4 + 1 + 3);
  options.train_segments = "max_age";
  options.train_segments_max_age = 1;
  const auto newest = PrepareBatch(OneGroup({a, b}), options, 10, 3);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->metrics.at("batch/loss_tokens"), 2) << "the slice of version 2";
  EXPECT_EQ(newest->metrics.at("batch/tokens_left_out_age"), 6);
}

TEST(PrepareBatch, ErrorsNameTheCall) {
  const auto message = [](const TrainBatch& batch) {
    const auto prepared = PrepareBatch(batch, {}, 10, 3);
    return prepared.ok() ? std::string("accepted") : std::string(prepared.status().message());
  };
  const auto with = [&](const std::function<void(CallSpec&)>& change) {
    CallSpec call = Turn({1, 2}, {3, 4});
    change(call);
    return message(OneGroup({MakeEpisode("fine", 0.0, {Turn({1}, {2})}), MakeEpisode("bad", 1.0, {call})}));
  };
  EXPECT_EQ(with([](CallSpec&) {}), "accepted");
  EXPECT_THAT(with([](CallSpec& c) { c.sampled[1] = 10; }),
              ::testing::AllOf(HasSubstr("bad/0"), HasSubstr("id 10"), HasSubstr("vocabulary of 10")));
  EXPECT_THAT(with([](CallSpec& c) { c.context[0] = -1; }), HasSubstr("bad/0"));
  EXPECT_THAT(with([](CallSpec& c) { c.logprobs[1] = std::numeric_limits<float>::quiet_NaN(); }),
              ::testing::AllOf(HasSubstr("bad/0"), HasSubstr("log-prob of sampled token 1")));
  EXPECT_THAT(with([](CallSpec& c) { c.logprobs[0] = 0.5f; }), HasSubstr("bad/0"));
  EXPECT_THAT(with([](CallSpec& c) { c.temperature = 0; }), HasSubstr("temperature"));
  EXPECT_THAT(with([](CallSpec& c) { c.versions = {3, 4}; }),
              ::testing::AllOf(HasSubstr("bad/0"), HasSubstr("newer than the trainer's 3")));
  EXPECT_THAT(with([](CallSpec& c) { c.context.clear(); }), HasSubstr("bad/0"));

  v1::EpisodeTree missing = MakeEpisode("bad", 1.0, {Turn({1, 2}, {3, 4})});
  missing.mutable_segments()->erase(base::Hex(missing.calls(0).sampled_keys(0)));
  EXPECT_THAT(message(OneGroup({missing})), HasSubstr("bad/0"));
  v1::EpisodeTree uncovered = MakeEpisode("bad", 1.0, {Turn({1, 2}, {3, 4})});
  (*uncovered.mutable_segments())[base::Hex(uncovered.calls(0).sampled_keys(0))].mutable_logprobs()->RemoveLast();
  EXPECT_THAT(message(OneGroup({uncovered})), HasSubstr("bad/0"));

  EXPECT_THAT(message(OneGroup({MakeEpisode("bad", std::nan(""), {Turn({1}, {2})})})),
              ::testing::AllOf(HasSubstr("bad"), HasSubstr("reward")));
  v1::EpisodeTree paid = MakeEpisode("bad", 1.0, {Turn({1}, {2})});
  (*paid.mutable_episode()->mutable_call_rewards())["bad/7"] = 1;
  EXPECT_THAT(message(OneGroup({paid})), ::testing::AllOf(HasSubstr("bad"), HasSubstr("call_rewards")));
  paid.mutable_episode()->clear_call_rewards();
  (*paid.mutable_episode()->mutable_call_rewards())["bad/0"] = INFINITY;
  EXPECT_THAT(message(OneGroup({paid})), HasSubstr("reward of call bad/0"));
  EXPECT_THAT(message(TrainBatch{}), HasSubstr("no groups"));
  const auto empty = PrepareBatch(OneGroup({MakeEpisode("none", 1.0, {})}), {}, 10, 3);
  ASSERT_TRUE(empty.ok());
  EXPECT_THAT(empty->empty_reason, HasSubstr("the batch has no tokens to train on"));
}

TEST(PrepareBatch, RewardToGoCreditsATurnWithLaterRewards) {
  v1::EpisodeTree a = MakeEpisode("a", 1.0, {Turn({1}, {3}), Turn({1, 3}, {4}), Turn({1, 3, 4}, {5})});
  (*a.mutable_episode()->mutable_call_rewards())["a/0"] = 2;
  (*a.mutable_episode()->mutable_call_rewards())["a/1"] = -1;
  a.mutable_calls(1)->mutable_sampling()->set_bias_acted(true);  // not trained, but its reward counts
  const TrainBatch batch = OneGroup({a, MakeEpisode("b", 0.0, {Turn({1}, {6})})});
  // Returns 2 and 0, mean 1. To go: 2, 0, 1.
  TrainerOptions options;
  EXPECT_THAT(PrepareBatch(batch, options, 10, 0)->advantages, ElementsAre(1, 1, -1));
  options.advantage_credit = "reward_to_go";
  EXPECT_THAT(PrepareBatch(batch, options, 10, 0)->advantages, ElementsAre(1, 0, -1));
  options.advantage_baseline = "leave_one_out";
  EXPECT_THAT(PrepareBatch(batch, options, 10, 0)->advantages, ElementsAre(2, 1, -2));
}

// The one final reward is on every sampled token of every call of the chain, the summary's included.
TEST(PrepareBatch, TheOutcomeIsOnEveryGenerationOfAChain) {
  const std::vector<int32_t> summary = {7, 8};
  const TrainBatch batch =
      OneGroup({MakeEpisode("chain", 1.0, {Turn({1, 2}, {3, 4}), Turn({1, 2, 3, 4, 9}, summary), Turn({1, 7, 8}, {5})}),
                MakeEpisode("plain", 0.0, {Turn({1, 2}, {6})})});
  TrainerOptions options;
  options.objective = "ppo_clip";
  options.loss_aggregation = "constant";
  options.loss_constant_tokens = 4;
  const auto prepared = PrepareBatch(batch, options, 10, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->advantages, ElementsAre(0.5, 0.5, 0.5, -0.5));
  EXPECT_THAT(prepared->weights, ElementsAre(0.125, 0.125, 0.125, 0.125));
  EXPECT_EQ(prepared->loss_tokens, 6);
}

TEST(PrepareBatch, OldSegmentsAreContextOnly) {
  CallSpec mixed = Turn({1}, {2, 3, 4});
  mixed.versions = {5, 6, 7};
  CallSpec old = Turn({1, 2, 3, 4}, {5, 6});
  old.versions = {5, 5};
  const TrainBatch batch = OneGroup({MakeEpisode("a", 1.0, {mixed, old}), MakeEpisode("b", 0.0, {mixed})});
  TrainerOptions options;
  options.train_segments = "current_version";
  auto prepared = PrepareBatch(batch, options, 10, 7);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_EQ(prepared->calls.size(), 2u);
  EXPECT_THAT(prepared->bears_loss[0], ElementsAre(0, 0, 1));
  EXPECT_EQ(prepared->loss_tokens, 2);
  EXPECT_THAT(prepared->weights, ElementsAre(0.5, 0.5));
  EXPECT_EQ(prepared->metrics.at("batch/tokens_left_out_age"), 6);
  EXPECT_EQ(prepared->metrics.at("async/staleness_max"), 0);
  options.train_segments = "max_age";
  options.train_segments_max_age = 1;
  prepared = PrepareBatch(batch, options, 10, 7);
  EXPECT_EQ(prepared->loss_tokens, 4);
  EXPECT_EQ(prepared->metrics.at("async/staleness_mean"), 0.5);
  options.train_segments = "current_version";
  options.train_segments_max_age = 0;
  EXPECT_THAT(PrepareBatch(batch, options, 10, 9)->empty_reason, HasSubstr("8 tokens older than train_segments"));
}

TEST(PrepareBatch, TruncatedCallsKeepTheirRewardInTheBaseline) {
  v1::EpisodeTree a = MakeEpisode("a", 1.0, {Turn({1}, {3}), Turn({1, 3}, {4, 5})});
  a.mutable_calls(1)->set_finish(v1::FINISH_LENGTH);
  v1::EpisodeTree b = MakeEpisode("b", 0.0, {Turn({1}, {6}), Turn({1, 6}, {7})});
  b.mutable_calls(1)->set_finish(v1::FINISH_LENGTH);
  b.mutable_calls(1)->set_weights(v1::WEIGHTS_EXTERNAL);  // another model's limit
  const TrainBatch batch = OneGroup({a, b});
  TrainerOptions options;
  auto prepared = PrepareBatch(batch, options, 10, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->advantages, ElementsAre(0.5, 0.5, -0.5));
  EXPECT_FALSE(prepared->metrics.contains("batch/calls_left_out_truncated"));

  options.truncated = "mask_call";
  prepared = PrepareBatch(batch, options, 10, 0);
  ASSERT_EQ(prepared->calls.size(), 2u);
  EXPECT_EQ(prepared->calls[0].call_id, "a/0");
  EXPECT_EQ(prepared->calls[1].call_id, "b/0");
  EXPECT_THAT(prepared->advantages, ElementsAre(0.5, -0.5));
  EXPECT_THAT(prepared->weights, ElementsAre(0.5, 0.5)) << "the call counts in no normaliser";
  EXPECT_EQ(prepared->metrics.at("batch/calls_left_out_truncated"), 1);
  EXPECT_EQ(prepared->metrics.at("response_length/max"), 3);

  options.truncated = "mask_episode";
  prepared = PrepareBatch(batch, options, 10, 0);
  ASSERT_EQ(prepared->calls.size(), 1u);
  EXPECT_EQ(prepared->calls[0].call_id, "b/0");
  EXPECT_THAT(prepared->advantages, ElementsAre(-0.5));
  EXPECT_EQ(prepared->metrics.at("batch/calls_left_out_truncated"), 2);
  EXPECT_EQ(prepared->metrics.at("batch/episodes"), 2);
  EXPECT_EQ(prepared->metrics.at("reward/batch_mean"), 0.5);

  const auto none = PrepareBatch(OneGroup({a}), options, 10, 0);
  EXPECT_THAT(none->empty_reason, HasSubstr("2 excluded by trainer.truncated"));
}

TEST(PrepareBatch, FiltersGroupsBeforeNormalisersAreCounted) {
  TrainBatch batch = OneGroup({MakeEpisode("a", 1.0, {Turn({1}, {3, 4})}), MakeEpisode("b", 0.0, {Turn({1}, {4, 5})})});
  batch.groups.push_back(
      MakeGroup(8, {MakeEpisode("c", 0.3, {Turn({2}, {3, 4, 5, 6})}), MakeEpisode("d", 0.3, {Turn({2}, {4})})}));
  TrainerOptions options;
  EXPECT_THAT(PrepareBatch(batch, options, 10, 0)->weights, ElementsAre(1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9));
  options.filter_zero_variance = true;
  for (const auto& [aggregation, weight] : {std::pair("token", 0.25), {"sequence", 0.25}, {"prompt", 0.25}}) {
    options.loss_aggregation = aggregation;
    const auto prepared = PrepareBatch(batch, options, 10, 0);
    EXPECT_THAT(prepared->weights, ElementsAre(weight, weight)) << aggregation;
    EXPECT_EQ(prepared->metrics.at("batch/groups_filtered"), 1);
    EXPECT_EQ(prepared->loss_tokens, 4);
  }
}

TEST(PrepareBatch, DpoPrefersTheBestToTheWorstOfAGroup) {
  TrainBatch batch;
  batch.groups.push_back(MakeGroup(
      0,
      {MakeEpisode("a", 0.5, {Turn({1}, {3})}), MakeEpisode("b", 0.2, {Turn({1}, {4}), Turn({1, 4}, {5})}),
       MakeEpisode("c", 0.9, {Turn({1}, {5})}), MakeEpisode("d", 5.0, {}), MakeEpisode("e", 0.9, {Turn({1}, {6})})}));
  batch.groups.push_back(MakeGroup(1, {MakeEpisode("f", 1, {Turn({2}, {3})}), MakeEpisode("g", 1, {Turn({2}, {4})})}));
  TrainerOptions options;
  options.objective = "dpo";
  options.loss_aggregation = "sequence";
  const auto prepared = PrepareBatch(batch, options, 10, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_EQ(prepared->preferences.size(), 1u);
  EXPECT_EQ(prepared->preferences[0].chosen, 2);  // the first of the best that have sampled tokens
  EXPECT_EQ(prepared->preferences[0].rejected, 1);
  EXPECT_EQ(prepared->calls.size(), 3u);  // two of b, one of c
  EXPECT_EQ(prepared->metrics.at("batch/episodes_unpaired"), 4);
  TrainBatch equal;
  equal.groups.push_back(batch.groups[1]);
  EXPECT_THAT(PrepareBatch(equal, options, 10, 0)->empty_reason, HasSubstr("2 episodes without a pair"));
}

TEST(PrepareBatch, RejectsWrongNumbersOfGroupsAndSamples) {
  const TrainBatch batch = OneGroup({MakeEpisode("a", 1.0, {Turn({1}, {3})}), MakeEpisode("b", 0.0, {Turn({1}, {4})})});
  TrainerOptions options;
  options.groups_per_step = 1;
  options.group_size = 2;
  EXPECT_TRUE(PrepareBatch(batch, options, 10, 0).ok());
  options.group_size = 3;
  EXPECT_THAT(std::string(PrepareBatch(batch, options, 10, 0).status().message()), HasSubstr("group 7 has 2"));
  options.groups_per_step = 2;
  EXPECT_THAT(std::string(PrepareBatch(batch, options, 10, 0).status().message()), HasSubstr("groups_per_step is 2"));
}

}  // namespace
}  // namespace ingot::trainer::core_test
