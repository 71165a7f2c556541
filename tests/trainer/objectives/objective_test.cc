// Every objective worked by hand, and its derivative against finite differences.
#include "trainer/objectives/objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "trainer/objectives/off_policy_mask.h"

namespace ingot::trainer::objective_test {
namespace {

using ::testing::HasSubstr;

// Owns the vectors that LossEntries refers to.
struct Data {
  std::vector<double> logprobs, recorded, reference, advantages, weights;
  std::vector<int32_t> sequences;
  int32_t sequence_count = 1;
  std::vector<Preference> preferences;

  LossEntries Entries() const {
    return {logprobs, recorded, reference, advantages, weights, sequences, sequence_count, preferences};
  }
};

struct Result {
  double loss = 0;
  std::vector<double> derivative;
};

Result Ask(const Objective& objective, const Data& data) {
  Result result;
  result.derivative.resize(data.logprobs.size());
  result.loss = objective.Loss(data.Entries(), result.derivative);
  return result;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12) << i;
}

// Four tokens with ratios 1, 1/4, 8 and 2; the first two are one sequence.
//   logprob   recorded          ratio   advantage  weight
//   -1        -1                1        1         0.1
//   -2        -2 + ln 4         1/4     -2         0.2
//   -0.5      -0.5 - ln 8       8        0.5       0.3
//   -3        -3 - ln 2         2        1         0.4
Data Example() {
  Data data;
  data.logprobs = {-1.0, -2.0, -0.5, -3.0};
  data.recorded = {-1.0, -2.0 + std::log(4.0), -0.5 - std::log(8.0), -3.0 - std::log(2.0)};
  data.advantages = {1.0, -2.0, 0.5, 1.0};
  data.weights = {0.1, 0.2, 0.3, 0.4};
  data.sequences = {0, 0, 1, 1};
  data.sequence_count = 2;
  return data;
}

TEST(Cispo, ClipsTheRatioAndKeepsEveryTokensGradient) {
  // Default clip [0, 5]: held ratios 1, 0.25, 5, 2. Coefficients ratio * A * weight:
  //   1 * 1 * 0.1 = 0.1;  0.25 * -2 * 0.2 = -0.1;  5 * 0.5 * 0.3 = 0.75;  2 * 1 * 0.4 = 0.8
  // loss = -(0.1 * -1 + -0.1 * -2 + 0.75 * -0.5 + 0.8 * -3) = 2.675
  const Result result = Ask(*MakeCispo(1.0, 4.0), Example());
  EXPECT_NEAR(result.loss, 2.675, 1e-12);
  // The clipped token (the third) still has its gradient, and the ratio is not differentiated.
  ExpectNear(result.derivative, {-0.1, 0.1, -0.75, -0.8});
}

TEST(Cispo, ClipsBelowToo) {
  // Clip [0.5, 1.5]: held ratios 1, 0.5, 1.5, 1.5; coefficients 0.1, -0.2, 0.225, 0.6.
  // loss = -(-0.1 + 0.4 - 0.1125 - 1.8) = 1.6125
  const Result result = Ask(*MakeCispo(0.5, 0.5), Example());
  EXPECT_NEAR(result.loss, 1.6125, 1e-12);
  ExpectNear(result.derivative, {-0.1, 0.2, -0.225, -0.6});
}

TEST(Cispo, TalliesUnclippedRatios) {
  MetricSums sums;
  MakeCispo(0.5, 0.5)->Tally(Example().Entries(), sums);
  EXPECT_DOUBLE_EQ(sums.means["actor/clipfrac_low"].mean(), 0.25);
  EXPECT_DOUBLE_EQ(sums.means["actor/clipfrac_high"].mean(), 0.5);
  EXPECT_NEAR(sums.means["cispo/ratio_mean"].mean(), 11.25 / 4, 1e-12);
  EXPECT_NEAR(sums.maxima["cispo/ratio_max"].max, 8, 1e-12);
}

TEST(Cispo, AnInfiniteRatioIsClipped) {
  Data data;
  data.logprobs = {-0.5};
  data.recorded = {-5000.0};
  data.advantages = data.weights = {1.0};
  data.sequences = {0};
  EXPECT_DOUBLE_EQ(Ask(*MakeCispo(1.0, 4.0), data).loss, 2.5);
}

TEST(PpoClip, TakesTheSmallerOfPlainAndClipped) {
  // Clip [0.8, 1.2].
  //   A 1,   ratio 1:    min(1, 1) = 1                          gradient 1 * 1
  //   A -2,  ratio 1/4:  min(-0.5, 0.8 * -2 = -1.6) = -1.6      clipped low
  //   A 0.5, ratio 8:    min(4, 0.6) = 0.6                      clipped high
  //   A 1,   ratio 2:    min(2, 1.2) = 1.2                      clipped high
  // loss = -(0.1 * 1 + 0.2 * -1.6 + 0.3 * 0.6 + 0.4 * 1.2) = -0.44
  const auto objective = MakePpoClip({0.2, 0.2});
  const Result result = Ask(*objective, Example());
  EXPECT_NEAR(result.loss, -0.44, 1e-12);
  ExpectNear(result.derivative, {-0.1, 0, 0, 0});
  MetricSums sums;
  objective->Tally(Example().Entries(), sums);
  EXPECT_DOUBLE_EQ(sums.means["actor/clipfrac_low"].mean(), 0.25);
  EXPECT_DOUBLE_EQ(sums.means["actor/clipfrac_high"].mean(), 0.5);
  EXPECT_NEAR(sums.maxima["ppo/ratio_max"].max, 8, 1e-12);
}

TEST(PpoClip, APlainRatioStandsIfTheClipWouldLowerTheLoss) {
  // Advantages with the opposite sign: -1, 2, -0.5, -1.
  //   min(-1, -1); min(0.5, 0.8 * 2) = 0.5; min(-4, -0.6) = -4; min(-2, -1.2) = -2
  // loss = -(0.1 * -1 + 0.2 * 0.5 + 0.3 * -4 + 0.4 * -2) = 2; the gradient is that of the plain ratio everywhere.
  Data data = Example();
  for (double& a : data.advantages) a = -a;
  const Result result = Ask(*MakePpoClip({0.2, 0.2}), data);
  EXPECT_NEAR(result.loss, 2.0, 1e-12);
  ExpectNear(result.derivative, {0.1, -0.1, 1.2, 0.8});
}

TEST(PpoClip, DualClipBoundsNegativeAdvantages) {
  // c = 3: the third term, -0.5 * 8 = -4, is held at 3 * -0.5 = -1.5.
  // loss = -(0.1 * -1 + 0.2 * 0.5 + 0.3 * -1.5 + 0.4 * -2) = 1.25
  Data data = Example();
  for (double& a : data.advantages) a = -a;
  const Result result = Ask(*MakePpoClip({0.2, 0.2, 3.0}), data);
  EXPECT_NEAR(result.loss, 1.25, 1e-12);
  ExpectNear(result.derivative, {0.1, -0.1, 0, 0.8});
}

TEST(PpoClip, BoundsMayDiffer) {
  // DAPO's [0.8, 1.28]: a ratio of 1.25 is inside, which 1.2 would not be.
  Data data = Example();
  data.logprobs = {-1.0};
  data.recorded = {-1.0 - std::log(1.25)};
  data.advantages = {2.0};
  data.weights = {0.5};
  data.sequences = {0};
  ExpectNear(Ask(*MakePpoClip({0.2, 0.28}), data).derivative, {-1.25});  // 0.5 * 1.25 * 2
  ExpectNear(Ask(*MakePpoClip({0.2, 0.2}), data).derivative, {0});
}

TEST(PpoClip, TruncatedImportanceWeights) {
  // Cap 2: weights 1, 1/4, 2, 2 on w A: 0.1, 0.25 * -0.4 = -0.1, 2 * 0.15 = 0.3, 2 * 0.4 = 0.8; sum 1.1, all ratios 1.
  const auto objective = MakePpoClip({0.2, 0.2, 0, 2.0});
  const Result result = Ask(*objective, Example());
  EXPECT_NEAR(result.loss, -1.1, 1e-12);
  ExpectNear(result.derivative, {-0.1, 0.1, -0.3, -0.8});
  MetricSums sums;
  objective->Tally(Example().Entries(), sums);
  EXPECT_NEAR(sums.means["tis/weight_mean"].mean(), 5.25 / 4, 1e-12);
  EXPECT_DOUBLE_EQ(sums.means["tis/capped_ratio"].mean(), 0.25);
}

TEST(Sapo, GatesTheRatioByItsTemperature) {
  // Temperatures 1 and 2; s(x) is the sigmoid. Gates:
  //   A 1,   ratio 1:    4 s(0) = 2                        slope 1
  //   A -2,  ratio 1/4:  2 s(-1.5)                         slope 4 s(-1.5) s(1.5)
  //   A 0.5, ratio 8:    4 s(7)                            slope 4 s(7) s(-7)
  //   A 1,   ratio 2:    4 s(1)                            slope 4 s(1) s(-1)
  const auto s = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto objective = MakeSapo(1, 2);
  const Result result = Ask(*objective, Example());
  EXPECT_NEAR(result.loss, -(0.1 * 2 - 0.4 * 2 * s(-1.5) + 0.15 * 4 * s(7) + 0.4 * 4 * s(1)), 1e-12);
  // weight * A * slope * ratio
  ExpectNear(result.derivative,
             {-0.1, 0.4 * 4 * s(-1.5) * s(1.5) / 4, -0.15 * 4 * s(7) * s(-7) * 8, -0.4 * 4 * s(1) * s(-1) * 2});
  MetricSums sums;
  objective->Tally(Example().Entries(), sums);
  EXPECT_NEAR(sums.means["sapo/gate_mean"].mean(), (1 + 4 * s(-1.5) * s(1.5) + 4 * s(7) * s(-7) + 4 * s(1) * s(-1)) / 4,
              1e-12);
  EXPECT_NEAR(sums.means["sapo/ratio_mean"].mean(), 11.25 / 4, 1e-12);
  EXPECT_NEAR(sums.maxima["sapo/ratio_max"].max, 8, 1e-12);
}

TEST(Sapo, WhereThePoliciesAgreeItIsThePlainPolicyGradient) {
  Data data = Example();
  data.recorded = data.logprobs;
  ExpectNear(Ask(*MakeSapo(0.3, 7), data).derivative, {-0.1, 0.4, -0.15, -0.4});
}

TEST(Sapo, AnInfiniteRatioHasAFiniteLossAndNoGradient) {
  Data data;
  data.logprobs = {-0.5, -0.5};
  data.recorded = {-5000.0, -5000.0};
  data.advantages = {1.0, -1.0};
  data.weights = {1.0, 1.0};
  data.sequences = {0, 0};
  const Result result = Ask(*MakeSapo(1, 2), data);
  EXPECT_DOUBLE_EQ(result.loss, -4 + 2);
  ExpectNear(result.derivative, {0, 0});
}

// Sequence 0: log-ratios 0.3 and 0.1, advantage 2. Sequence 1: one token, log-ratio -0.1, advantage -1.
// Mean over tokens, then over the two sequences: weights 1/4, 1/4, 1/2.
Data Sequences() {
  Data data;
  data.logprobs = {-1.0, -2.0, -1.5};
  data.recorded = {-1.3, -2.1, -1.4};
  data.reference = {-1.2, -1.9, -2.0};
  data.advantages = {2, 2, -1};
  data.weights = {0.25, 0.25, 0.5};
  data.sequences = {0, 0, 1};
  data.sequence_count = 3;  // the third has no token here
  return data;
}

TEST(Gspo, TheRatioIsTheSequences) {
  // s0 = exp((0.3 + 0.1) / 2) = e^0.2 = 1.2214, s1 = e^-0.1 = 0.9048; clip [0.5, 1.5] leaves both.
  // loss = -(1/2 * 2 s0 + 1/2 * -1 s1); derivatives -1/4 * 2 s0 twice, +1/2 s1.
  const auto objective = MakeGspo(0.5, 0.5);
  EXPECT_EQ(objective->scope(), Objective::Scope::kBatch);
  const Result result = Ask(*objective, Sequences());
  const double s0 = std::exp(0.2), s1 = std::exp(-0.1);
  EXPECT_NEAR(result.loss, -s0 + 0.5 * s1, 1e-12);
  ExpectNear(result.derivative, {-0.5 * s0, -0.5 * s0, 0.5 * s1});
}

TEST(Gspo, AClippedSequenceLosesAllItsGradient) {
  // Clip [0.95, 1.1]: s0 = 1.22 with A > 0 is clipped high: 1.1 * 2; s1 = 0.905 with A < 0 low: 0.95 * -1.
  const auto objective = MakeGspo(0.05, 0.1);
  const Result result = Ask(*objective, Sequences());
  EXPECT_NEAR(result.loss, -(0.5 * 2.2 + 0.5 * -0.95), 1e-12);
  ExpectNear(result.derivative, {0, 0, 0});
  MetricSums sums;
  objective->Tally(Sequences().Entries(), sums);
  EXPECT_NEAR(sums.means["actor/clipfrac_high"].mean(), 2.0 / 3, 1e-12);
  EXPECT_NEAR(sums.means["actor/clipfrac_low"].mean(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(sums.means["gspo/ratio_mean"].mean(), (std::exp(0.2) + std::exp(-0.1)) / 2, 1e-12);
  EXPECT_NEAR(sums.maxima["gspo/ratio_max"].max, std::exp(0.2), 1e-12);
}

TEST(Opmd, PullsBackByTheSquaredSequenceLogRatio) {
  // tau 0.5, W = 1/2 each. d0 = 0.4, d1 = -0.1.
  // loss = -1/2 (2 * -3 - 0.25 * 0.16) - 1/2 (-1 * -1.5 - 0.25 * 0.01) = 3.02 - 0.74875 = 2.27125
  // derivatives: -1/2 (2 - 0.5 * 0.4) = -0.9 twice; -1/2 (-1 - 0.5 * -0.1) = 0.475
  const auto objective = MakeOpmd(0.5);
  const Result result = Ask(*objective, Sequences());
  EXPECT_NEAR(result.loss, 2.27125, 1e-12);
  ExpectNear(result.derivative, {-0.9, -0.9, 0.475});
  MetricSums sums;
  objective->Tally(Sequences().Entries(), sums);
  EXPECT_NEAR(sums.means["opmd/log_ratio_mean"].mean(), 0.15, 1e-12);
  EXPECT_NEAR(sums.means["opmd/penalty_mean"].mean(), (0.04 + 0.0025) / 2, 1e-12);
}

TEST(Dpo, ComparesThePairsMargins) {
  // Against the reference: sequence 0: 0.2 - 0.1 = 0.1; sequence 1: 0.5. Sequence 1 chosen, beta 2: margin 0.8.
  // loss = log(1 + e^-0.8); pull = 2 / (1 + e^0.8), off the chosen's, onto the rejected's tokens.
  Data data = Sequences();
  data.preferences = {{1, 0}};
  const auto objective = MakeDpo(2.0);
  EXPECT_TRUE(objective->needs_reference());
  const Result result = Ask(*objective, data);
  EXPECT_NEAR(result.loss, std::log1p(std::exp(-0.8)), 1e-12);
  const double pull = 2 / (1 + std::exp(0.8));
  ExpectNear(result.derivative, {pull, pull, -pull});
  MetricSums sums;
  objective->Tally(data.Entries(), sums);
  EXPECT_DOUBLE_EQ(sums.means["dpo/accuracy"].mean(), 1);
  EXPECT_NEAR(sums.means["dpo/margin_mean"].mean(), 0.8, 1e-12);
}

TEST(Dpo, IsTheMeanOverThePreferencesAndDoesNotOverflow) {
  Data data = Sequences();
  data.preferences = {{1, 0}, {0, 1}};
  // Margins 0.8 and -0.8: the pulls differ by beta: (2 / (1 + e^-0.8) - 2 / (1 + e^0.8)) / 2
  const double pull = 1 / (1 + std::exp(-0.8)) - 1 / (1 + std::exp(0.8));
  ExpectNear(Ask(*MakeDpo(2.0), data).derivative, {-pull, -pull, pull});
  data.logprobs[2] = -2000;
  data.preferences = {{1, 0}};
  const Result result = Ask(*MakeDpo(2.0), data);
  EXPECT_NEAR(result.loss, 2 * (1998 + 0.1), 1e-9);
  ExpectNear(result.derivative, {2, 2, -2});
}

TEST(Sft, IsTheWeightedNegativeLogLikelihood) {
  // 0.1 * 1 + 0.2 * 2 + 0.3 * 0.5 + 0.4 * 3
  const Result result = Ask(*MakeSft(), Example());
  EXPECT_NEAR(result.loss, 1.85, 1e-12);
  ExpectNear(result.derivative, {-0.1, -0.2, -0.3, -0.4});
}

// Thirty tokens of six sequences, ratios between 1/3 and 3, one advantage and one weight per sequence.
Data RandomData(uint64_t seed) {
  Data data;
  uint64_t count = 0;
  const auto draw = [&](double low, double high) { return low + (high - low) * base::UniformAt(seed, count++); };
  data.sequence_count = 6;
  for (int32_t s = 0; s < 6; ++s) {
    const double advantage = draw(-2, 2);
    for (int t = 0; t < 3 + s % 4; ++t) {
      data.logprobs.push_back(draw(-4, -0.1));
      data.recorded.push_back(data.logprobs.back() + draw(-1.1, 1.1));
      data.reference.push_back(data.logprobs.back() + draw(-1, 1));
      data.advantages.push_back(advantage);
      data.weights.push_back(1.0 / (6.0 * (3 + s % 4)));
      data.sequences.push_back(s);
    }
  }
  data.preferences = {{0, 1}, {2, 3}, {5, 4}, {0, 4}};
  return data;
}

// For objectives that are differentiated whole. CISPO and importance weights hold a part of the loss constant; the test
// below covers their derivative.
TEST(Objectives, DerivativesAreTheFiniteDifferences) {
  const std::vector<std::pair<std::string, std::unique_ptr<Objective>>> objectives = [] {
    std::vector<std::pair<std::string, std::unique_ptr<Objective>>> all;
    all.emplace_back("ppo", MakePpoClip({0.2, 0.28}));
    all.emplace_back("dual", MakePpoClip({0.2, 0.28, 1.5}));
    all.emplace_back("gspo", MakeGspo(0.1, 0.1));
    all.emplace_back("opmd", MakeOpmd(0.7));
    all.emplace_back("dpo", MakeDpo(0.3));
    all.emplace_back("sft", MakeSft());
    all.emplace_back("sapo", MakeSapo(1.0, 1.5));
    return all;
  }();
  constexpr double kStep = 1e-6;
  for (const auto& [name, objective] : objectives) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Data data = RandomData(seed);
      const Result result = Ask(*objective, data);
      for (size_t i = 0; i < data.logprobs.size(); ++i) {
        const double value = data.logprobs[i];
        data.logprobs[i] = value + kStep;
        const double above = Ask(*objective, data).loss;
        data.logprobs[i] = value - kStep;
        const double below = Ask(*objective, data).loss;
        data.logprobs[i] = value;
        EXPECT_NEAR(result.derivative[i], (above - below) / (2 * kStep), 1e-8) << name << " token " << i;
      }
    }
  }
}

// The loss is linear in the log-prob once the held part is a constant: derivative * logprob adds up to the loss.
TEST(Objectives, HeldFactorsAreNotDifferentiated) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Data data = RandomData(seed);
    const Result cispo = Ask(*MakeCispo(0.3, 0.3), data);
    const Result tis = Ask(*MakePpoClip({0.2, 0.2, 0, 1.5}), data);
    double cispo_loss = 0, tis_loss = 0;
    for (size_t i = 0; i < data.logprobs.size(); ++i) {
      cispo_loss += cispo.derivative[i] * data.logprobs[i];
      tis_loss += tis.derivative[i];  // every ratio is 1, with derivative 1
    }
    EXPECT_NEAR(cispo.loss, cispo_loss, 1e-12);
    EXPECT_NEAR(tis.loss, tis_loss, 1e-12);
  }
}

// The objective's answer about the entries that the masks keep; the derivative of the others is 0.
Result AskMasked(const Objective& objective, const Data& data, const OffPolicyMaskOptions& masks) {
  const KeptEntries kept(data.Entries(), masks);
  std::vector<double> of_kept(kept.places().size());
  Result result;
  result.loss = objective.Loss(kept.entries(), of_kept);
  result.derivative.resize(data.logprobs.size());
  for (size_t i = 0; i < of_kept.size(); ++i) result.derivative[kept.places()[i]] = of_kept[i];
  return result;
}

std::map<std::string, double> MaskShares(const Data& data, const OffPolicyMaskOptions& masks) {
  MetricSums sums;
  KeptEntries(data.Entries(), masks).Tally(sums);
  std::map<std::string, double> shares;
  for (const auto& [name, share] : sums.means) shares[name] = share.mean();
  return shares;
}

TEST(Masks, TokensOutsideTheBoundsGiveNoLoss) {
  // Ratios 1, 1/4, 8, 2, bounds [1/2, 5]: the first and the last stay, with CISPO's coefficients 0.1 and 0.8 and their
  // old weights. loss = -(0.1 * -1 + 0.8 * -3) = 2.5
  const OffPolicyMaskOptions masks{.token_low = 0.5, .token_high = 5};
  const Result result = AskMasked(*MakeCispo(1.0, 4.0), Example(), masks);
  EXPECT_NEAR(result.loss, 2.5, 1e-12);
  ExpectNear(result.derivative, {-0.1, 0, 0, -0.8});
  EXPECT_THAT(MaskShares(Example(), masks), ::testing::ElementsAre(::testing::Pair("offpolicy/masked", 0.5),
                                                                   ::testing::Pair("offpolicy/masked_token", 0.5)));
  // One bound alone.
  ExpectNear(AskMasked(*MakeCispo(1.0, 4.0), Example(), {.token_high = 5}).derivative, {-0.1, 0.1, 0, -0.8});
  ExpectNear(AskMasked(*MakeCispo(1.0, 4.0), Example(), {.token_low = 0.5}).derivative, {-0.1, 0, -0.75, -0.8});
}

TEST(Masks, SequencesAreLeftOutByTheirGeometricMean) {
  // Geometric means e^0.2 = 1.22 and e^-0.1 = 0.905. The second token's own ratio e^0.1 = 1.105 is not asked.
  const double stays = 0.5 * std::exp(-0.1);
  const Result result = AskMasked(*MakeCispo(1.0, 4.0), Sequences(), {.sequence_high = 1.2});
  EXPECT_NEAR(result.loss, stays * -1.5, 1e-12);
  ExpectNear(result.derivative, {0, 0, stays});
  ExpectNear(AskMasked(*MakeCispo(1.0, 4.0), Sequences(), {.sequence_low = 0.95}).derivative,
             {-0.5 * std::exp(0.3), -0.5 * std::exp(0.1), 0});
  EXPECT_NEAR(MaskShares(Sequences(), {.sequence_high = 1.2}).at("offpolicy/masked_sequence"), 2.0 / 3, 1e-12);
}

TEST(Masks, OpsmLeavesOutNegativeAdvantagesFarFromTheirPolicy) {
  // Recorded less current: -0.2 in the mean of sequence 0 and 0.1 in sequence 1, whose advantage is -1.
  const auto places = [](const Data& data, double delta) {
    return KeptEntries(data.Entries(), {.opsm_delta = delta}).places();
  };
  EXPECT_THAT(places(Sequences(), 0.05), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(places(Sequences(), 0.15), ::testing::ElementsAre(0, 1, 2));
  EXPECT_NEAR(MaskShares(Sequences(), {.opsm_delta = 0.05}).at("offpolicy/masked_opsm"), 1.0 / 3, 1e-12);
  // Sequence 0 with ((1.8 - 1.3) + (2.0 - 2.1)) / 2 = 0.2: advantages above 0 stay, one below goes.
  Data far = Sequences();
  far.logprobs[0] = -1.8;
  EXPECT_THAT(places(far, 0.15), ::testing::ElementsAre(0, 1, 2));
  far.advantages[1] = -2;
  EXPECT_THAT(places(far, 0.15), ::testing::ElementsAre(0, 2));
}

TEST(Masks, AMaskedTokenIsNoTokenOfItsSequence) {
  // The bound 1.2 leaves out the first token, of ratio e^0.3. Weights stay 1/4 and 1/2, the sequence's W 1/2.
  const OffPolicyMaskOptions masks{.token_high = 1.2};
  // GSPO: s0 = e^0.1 of the second token alone.
  const double s0 = std::exp(0.1), s1 = std::exp(-0.1);
  const Result gspo = AskMasked(*MakeGspo(0.5, 0.5), Sequences(), masks);
  EXPECT_NEAR(gspo.loss, -0.5 * s0 + 0.5 * s1, 1e-12);
  ExpectNear(gspo.derivative, {0, -0.5 * s0, 0.5 * s1});
  // OPMD, tau 0.5: d0 = 0.1. loss = -1/2 (2 * -2 - 0.25 * 0.01) - 1/2 (-1 * -1.5 - 0.25 * 0.01) = 1.2525
  const Result opmd = AskMasked(*MakeOpmd(0.5), Sequences(), masks);
  EXPECT_NEAR(opmd.loss, 1.2525, 1e-12);
  ExpectNear(opmd.derivative, {0, -0.975, 0.475});
}

std::vector<std::unique_ptr<Objective>> WithRatios() {
  std::vector<std::unique_ptr<Objective>> all;
  all.push_back(MakeCispo(0.3, 0.3));
  all.push_back(MakePpoClip({0.2, 0.28}));
  all.push_back(MakePpoClip({0.2, 0.2, 0, 1.5}));
  all.push_back(MakeGspo(0.1, 0.1));
  all.push_back(MakeOpmd(0.7));
  return all;
}

TEST(Masks, WhatIsMaskedWholeGivesZero) {
  const OffPolicyMaskOptions masks{.sequence_low = 0.99, .sequence_high = 1.01};
  for (const auto& objective : WithRatios()) {
    const Result result = AskMasked(*objective, Sequences(), masks);
    EXPECT_EQ(result.loss, 0) << objective->Describe();
    ExpectNear(result.derivative, {0, 0, 0});
    MetricSums sums;
    const Data data = Sequences();
    objective->Tally(KeptEntries(data.Entries(), masks).entries(), sums);
    for (const auto& [name, mean] : sums.means) EXPECT_EQ(mean.mean(), 0) << name;
  }
}

TEST(Masks, AnInfiniteRatioIsMaskedAndANumberThatIsNoneIsNot) {
  Data data = Sequences();
  data.recorded[2] = -5000;
  const Result result = AskMasked(*MakePpoClip({0.2, 0.2}), data, {.token_high = 5});
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(result.derivative[2], 0);
  data.logprobs[2] = std::nan("");
  const OffPolicyMaskOptions all{0.5, 2, 0.5, 2, 0.1};
  EXPECT_THAT(KeptEntries(data.Entries(), all).places(), ::testing::ElementsAre(0, 1, 2));
}

// A mask has no derivative: away from its bounds the loss changes as if the mask were a constant.
TEST(Masks, DerivativesAreTheFiniteDifferences) {
  const OffPolicyMaskOptions masks{0.5, 2, 0.8, 1.25, 0.05};
  std::vector<std::unique_ptr<Objective>> objectives;
  objectives.push_back(MakePpoClip({0.2, 0.28}));
  objectives.push_back(MakeGspo(0.1, 0.1));
  objectives.push_back(MakeOpmd(0.7));
  constexpr double kStep = 1e-6;
  size_t kept = 0, tokens = 0;
  for (const auto& objective : objectives) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Data data = RandomData(seed);
      kept += KeptEntries(data.Entries(), masks).places().size();
      tokens += data.logprobs.size();
      const Result result = AskMasked(*objective, data, masks);
      for (size_t i = 0; i < data.logprobs.size(); ++i) {
        const double value = data.logprobs[i];
        data.logprobs[i] = value + kStep;
        const double above = AskMasked(*objective, data, masks).loss;
        data.logprobs[i] = value - kStep;
        const double below = AskMasked(*objective, data, masks).loss;
        data.logprobs[i] = value;
        EXPECT_NEAR(result.derivative[i], (above - below) / (2 * kStep), 1e-8) << objective->Describe() << " " << i;
      }
    }
  }
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, tokens);
}

// Token objectives may be asked piece by piece, as the cut into micro-batches does.
TEST(Objectives, PiecesAddUpToTheWhole) {
  const Data data = RandomData(9);
  for (const auto& objective :
       {MakeCispo(0.3, 0.3), MakePpoClip({0.2, 0.2, 1.5}), MakePpoClip({0.2, 0.2, 0, 1.5}), MakeSapo(1, 1.05)}) {
    ASSERT_EQ(objective->scope(), Objective::Scope::kToken);
    const Result whole = Ask(*objective, data);
    double loss = 0;
    MetricSums pieces, all;
    objective->Tally(data.Entries(), all);
    for (size_t i = 0; i < data.logprobs.size(); ++i) {
      Data one = data;
      for (auto* column : {&one.logprobs, &one.recorded, &one.reference, &one.advantages, &one.weights}) {
        *column = {(*column)[i]};
      }
      one.sequences = {data.sequences[i]};
      const Result piece = Ask(*objective, one);
      loss += piece.loss;
      EXPECT_EQ(piece.derivative[0], whole.derivative[i]);
      objective->Tally(one.Entries(), pieces);
    }
    EXPECT_NEAR(loss, whole.loss, 1e-12);
    for (const auto& [name, value] : all.means) EXPECT_NEAR(pieces.means[name].mean(), value.mean(), 1e-12) << name;
  }
}

TEST(Objective, UnknownNamesListTheKnown) {
  TrainerOptions options;
  options.objective = "grpo";
  EXPECT_THAT(std::string(MakeObjective(options).status().message()),
              ::testing::AllOf(HasSubstr("cispo, ppo_clip, gspo, opmd, dpo, sapo"), HasSubstr("preset")));
}

TEST(Objective, SaysItsEffectiveBounds) {
  TrainerOptions options;
  EXPECT_THAT((*MakeObjective(options))->Describe(), HasSubstr("clipped to [0, 5]"));
  options.objective = "ppo_clip";
  options.eps_clip_low = 0.2;
  options.eps_clip_high = 0.28;
  EXPECT_THAT((*MakeObjective(options))->Describe(), HasSubstr("clipped to [0.8, 1.28] per token"));
  options.importance_cap = 2;
  EXPECT_THAT((*MakeObjective(options))->Describe(),
              ::testing::AllOf(HasSubstr("the clip never applies"), HasSubstr("capped at 2")));
  options.objective = "gspo";
  EXPECT_THAT((*MakeObjective(options))->Describe(), HasSubstr("clipped to [0.8, 1.28] per sequence"));
  options.objective = "sapo";
  EXPECT_THAT((*MakeObjective(options))->Describe(), HasSubstr("temperature 1 for positive and 1.05 for other"));
}

}  // namespace
}  // namespace ingot::trainer::objective_test
