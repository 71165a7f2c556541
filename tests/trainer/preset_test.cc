// Presets: known names, and the published recipes worked from rewards to derivatives by hand.
#include "trainer/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "makers.h"
#include "preset_options.h"
#include "trainer/batch.h"
#include "trainer/objectives/step_loss.h"

namespace ingot::trainer::preset_test {
namespace {

using ::testing::HasSubstr;

TEST(Presets, AllAreValid) {
  for (const std::string& name : PresetNames()) {
    TrainerOptions options = OptionsOf(name);
    EXPECT_TRUE(options.Validate().ok()) << name << ": " << options.Validate();
  }
}

TEST(Presets, UnknownNamesListTheKnown) {
  EXPECT_THAT(std::string(Preset("forg").status().message()), HasSubstr("none, forge, grpo, dr_grpo, dapo, gspo"));
}

// One group of two: the first sampled 2 tokens in one turn (reward 1), the second 1 + 1 in two turns (reward 0, its
// first turn earned 0.5). A second group of equal rewards, one token each. Every ratio is 1 but those of the first
// sample: exp(logprob - recorded) with logprob -1.
TrainBatch Batch() {
  const auto turn = [](std::vector<int32_t> context, std::vector<int32_t> sampled, std::vector<float> recorded) {
    return CallSpec{std::move(context), std::move(sampled), std::move(recorded), {}, {}, 1.0f};
  };
  const float up = -1.0f - static_cast<float>(std::log(1.25));  // ratio 1.25
  v1::EpisodeTree b = MakeEpisode("b", 0.0, {turn({1}, {4}, {-1}), turn({1, 4}, {5}, {-1})});
  (*b.mutable_episode()->mutable_call_rewards())["b/0"] = 0.5;
  TrainBatch batch;
  batch.groups.push_back(MakeGroup(0, {MakeEpisode("a", 1.0, {turn({1}, {2, 3}, {-1, up})}), b}));
  batch.groups.push_back(
      MakeGroup(1, {MakeEpisode("c", 1.0, {turn({2}, {6}, {-1})}), MakeEpisode("d", 1.0, {turn({2}, {7}, {-1})})}));
  return batch;
}

// The derivative by every token's log-prob. All log-probs are -1; the reference's are `reference`.
std::vector<double> Derivatives(const TrainerOptions& options, double reference = -1) {
  const auto batch = PrepareBatch(Batch(), options, 10, 0);
  EXPECT_TRUE(batch.ok()) << batch.status();
  const auto objective = MakeObjective(options);
  StepLoss loss(**objective, CoefficientsOf(options), *batch);
  std::vector<tree::LossEntry> entries;
  for (size_t c = 0; c < batch->calls.size(); ++c) {
    for (size_t t = 0; t < batch->calls[c].logprobs.size(); ++t) {
      entries.push_back({0, 0, static_cast<int32_t>(c), static_cast<int32_t>(t)});
    }
  }
  const std::vector<double> logprobs(entries.size(), -1.0), entropy(entries.size(), 0.0);
  if (loss.needs_reference()) loss.RecordReference(entries, std::vector<double>(entries.size(), reference));
  if (loss.needs_scores()) {
    loss.RecordCurrent(entries, logprobs);
    loss.Fix();
  }
  std::vector<double> by_logprob(entries.size()), by_entropy(entries.size());
  loss.Evaluate(entries, logprobs, entropy, by_logprob, by_entropy);
  EXPECT_TRUE(loss.non_finite_calls().empty());
  return by_logprob;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-6) << i;  // deviations carry 1e-6
}

TEST(Presets, Forge) {
  // Returns 1 and 0.5; baselines, the other's: 0.5 and 1. Advantages: a 0.5; b turn 0: 0.5 - 1 = -0.5, turn 1: 0 - 1 =
  // -1. Weights 1 / (2 groups * 4 tokens) and 1 / (2 * 2); ratios 1, 1.25, 1, 1.
  ExpectNear(Derivatives(OptionsOf("forge")), {-0.0625, -0.0625 * 1.25, 0.0625, 0.125, 0, 0});
}

TEST(Presets, Grpo) {
  // Returns 1, 0.5: deviation 0.25, advantages +-1. Weights 1 / (4 samples * 2 tokens). The second token's ratio 1.25
  // is past 1.2. Reference -1.1: 0.04 * w * (1 - e^-0.1).
  const double w = 1.0 / 8, kl = 0.04 * (1 - std::exp(-0.1));
  ExpectNear(Derivatives(OptionsOf("grpo"), -1.1),
             {w * (-1 + kl), w * kl, w * (1 + kl), w * (1 + kl), 2 * w * kl, 2 * w * kl});
}

TEST(Presets, DrGrpo) {
  // Advantages +-0.25; every token 1 / (4 samples * 1024), long or short.
  const double w = 1.0 / 4096;
  TrainerOptions options = OptionsOf("dr_grpo");
  EXPECT_EQ(options.advantage_normalization, "none");
  ExpectNear(Derivatives(options), {-w * 0.25, 0, w * 0.25, w * 0.25, 0, 0});
  options.loss_constant_tokens = 1;
  ExpectNear(Derivatives(options), {-0.0625, 0, 0.0625, 0.0625, 0, 0});
}

TEST(Presets, Dapo) {
  // The equal group is left out: 4 tokens remain. Ratio 1.25 is inside 1.28.
  ExpectNear(Derivatives(OptionsOf("dapo")), {-0.25, -0.25 * 1.25, 0.25, 0.25});
}

TEST(Presets, Gspo) {
  TrainerOptions options = OptionsOf("gspo");
  // s of a = sqrt(1.25) = 1.118, past 1.0004: no gradient. b: 1, weight 1/8, advantage -1.
  ExpectNear(Derivatives(options), {0, 0, 0.125, 0.125, 0, 0});
  options.eps_clip_high = 0.2;
  const double s = std::sqrt(1.25) / 8;
  ExpectNear(Derivatives(options), {-s, -s, 0.125, 0.125, 0, 0});
}

TEST(Presets, Ppo) {
  // Leave-one-out: a 1 - 0.5, b 0.5 - 1; 6 tokens.
  ExpectNear(Derivatives(OptionsOf("ppo")), {-0.5 / 6, 0, 0.5 / 6, 0.5 / 6, 0, 0});
}

TEST(Presets, Rloo) {
  // Leave-one-out: +-0.5; each of 4 samples weighs 1/4, whatever its length. The ratio 1.25 is held.
  ExpectNear(Derivatives(OptionsOf("rloo")), {-0.125, -0.125 * 1.25, 0.125, 0.125, 0, 0});
}

TEST(Presets, ReinforcePlusPlus) {
  // Less the groups' means: 0.25, -0.25, 0, 0; their deviation sqrt(0.125 / 4). 6 tokens; 1.25 is past 1.2.
  const double w = 0.25 / std::sqrt(0.125 / 4) / 6;
  ExpectNear(Derivatives(OptionsOf("reinforce_plus_plus")), {-w, 0, w, w, 0, 0});
}

TEST(Presets, K15) {
  // Advantages +-0.25; d of a = ln 1.25, tau 1; W = 1/4 for each of 4 sequences.
  const double d = std::log(1.25);
  ExpectNear(Derivatives(OptionsOf("k1.5")), {-(0.25 - d) / 4, -(0.25 - d) / 4, 0.0625, 0.0625, 0, 0});
}

TEST(Presets, Sapo) {
  // Advantages +-1, weights 1/8. The second token's ratio is 1.25: slope 4 s(0.25) s(-0.25).
  const double s = 1 / (1 + std::exp(-0.25));
  ExpectNear(Derivatives(OptionsOf("sapo")), {-0.125, -0.125 * 1.25 * 4 * s * (1 - s), 0.125, 0.125, 0, 0});
}

TEST(Presets, Dpo) {
  // Policy and reference agree: margin 0, pull = 0.1 / 2. Group 1 has no pair.
  ExpectNear(Derivatives(OptionsOf("dpo")), {-0.05, -0.05, 0.05, 0.05});
}

// Of Batch(): weights 1/6, advantages 0.25, 0.25, -0.25, -0.25, 0, 0.
struct Masked {
  std::vector<double> by_logprob, by_entropy;
  double loss = 0;
  MetricSums sums;
};

Masked EvaluateMasked(const TrainerOptions& options, size_t pieces) {
  const auto batch = PrepareBatch(Batch(), options, 10, 0);
  EXPECT_TRUE(batch.ok()) << batch.status();
  const auto objective = *MakeObjective(options);
  StepLoss loss(*objective, {options.kl_coefficient, 0, options.entropy_coefficient}, *batch, options.off_policy_mask);
  std::vector<tree::LossEntry> entries;
  for (size_t c = 0; c < batch->calls.size(); ++c) {
    for (size_t t = 0; t < batch->calls[c].logprobs.size(); ++t) {
      entries.push_back({0, 0, static_cast<int32_t>(c), static_cast<int32_t>(t)});
    }
  }
  EXPECT_EQ(loss.needs_scores(), options.off_policy_mask.of_sequences());
  if (loss.needs_scores()) {
    loss.RecordCurrent(entries, std::vector<double>(entries.size(), -1.0));
    loss.Fix();
  }
  Masked out;
  const size_t step = entries.size() / pieces;
  for (size_t begin = 0; begin < entries.size(); begin += step) {
    const std::vector<double> logprobs(step, -1.0), entropy(step, 2.0);
    std::vector<double> by_logprob(step), by_entropy(step);
    out.loss += loss.Evaluate(std::span(entries).subspan(begin, step), logprobs, entropy, by_logprob, by_entropy);
    out.by_logprob.insert(out.by_logprob.end(), by_logprob.begin(), by_logprob.end());
    out.by_entropy.insert(out.by_entropy.end(), by_entropy.begin(), by_entropy.end());
  }
  out.sums = loss.sums();
  return out;
}

TEST(StepLoss, MaskedTokensKeepTheirPenalties) {
  // The second token has ratio 1.25: no policy loss, but the KL's derivative 0.1 * w * (r - 1) and the entropy's -0.2 w.
  TrainerOptions options;
  options.kl_coefficient = 0.1;
  options.entropy_coefficient = 0.2;
  options.off_policy_mask.token_high = 1.2;
  const double w = 1.0 / 6;
  const Masked whole = EvaluateMasked(options, 1);
  ExpectNear(whole.by_logprob, {-w * 0.25, 0.1 * w * 0.25, w * 0.25, w * 0.25, 0, 0});
  ExpectNear(whole.by_entropy, std::vector<double>(6, -0.2 * w));
  // Policy -w * (0.25 - 0.25 - 0.25) * -1, KL of the second token alone, entropy 2 at six tokens.
  EXPECT_NEAR(whole.loss, -w * 0.25 + 0.1 * w * (0.25 - std::log(1.25)) - 0.4, 2e-6);
  EXPECT_NEAR(whole.sums.means.at("offpolicy/masked").mean(), w, 1e-12);
  EXPECT_EQ(whole.sums.means.at("cispo/ratio_mean").count, 5) << "ratios are of tokens with a policy loss";
  const Masked cut = EvaluateMasked(options, 3);
  EXPECT_EQ(cut.by_logprob, whole.by_logprob);
  EXPECT_NEAR(cut.loss, whole.loss, 1e-12);
  EXPECT_EQ(cut.sums.means.at("offpolicy/masked_token").sum, whole.sums.means.at("offpolicy/masked_token").sum);
}

TEST(StepLoss, SequencesAreMaskedWholeWhereverTheirForestIsCut) {
  // Geometric mean of the first episode: sqrt(1.25) = 1.118.
  TrainerOptions options;
  options.off_policy_mask.sequence_high = 1.1;
  const double w = 1.0 / 6;
  for (const size_t pieces : {1, 2, 3, 6}) {
    const Masked out = EvaluateMasked(options, pieces);
    ExpectNear(out.by_logprob, {0, 0, w * 0.25, w * 0.25, 0, 0});
    EXPECT_NEAR(out.loss, -w * 0.5, 2e-6);
    EXPECT_NEAR(out.sums.means.at("offpolicy/masked_sequence").mean(), 2 * w, 1e-12);
  }
}

// The loss of one token without an advantage: its penalties alone.
double PenaltiesOf(const LossCoefficients& coefficients, double logprob, double reference, double* derivative) {
  const TrainBatch one = [] {
    TrainBatch batch;
    batch.groups.push_back(MakeGroup(0, {MakeEpisode("a", 0.0, {CallSpec{{1}, {2}, {-1.0f}, {}, {}, 1.0f}})}));
    return batch;
  }();
  const auto batch = PrepareBatch(one, {}, 10, 0);
  EXPECT_TRUE(batch.ok()) << batch.status();
  const auto objective = MakeCispo(1, 4);
  StepLoss loss(*objective, coefficients, *batch);
  const std::vector<tree::LossEntry> entries = {{0, 0, 0, 0}};
  if (loss.needs_reference()) loss.RecordReference(entries, std::vector<double>{reference});
  std::vector<double> by_logprob(1), by_entropy(1);
  const double value =
      loss.Evaluate(entries, std::vector<double>{logprob}, std::vector<double>{0.0}, by_logprob, by_entropy);
  *derivative = by_logprob[0];
  return value;
}

TEST(KlKinds, AreTheEstimatesOfBothPenalties) {
  // Weight 1, log-prob -0.7. Recorded -1: x = 0.3, p the rollout policy. Reference -1.2: x = -0.5, p the policy.
  const auto k3 = [](double x) { return std::exp(x) - 1 - x; };
  const std::map<std::string, std::pair<double, double>> expected = {
      {"k1", {-0.3, 0.5}}, {"k2", {0.045, 0.125}}, {"k3", {k3(0.3), k3(-0.5)}}, {"abs", {0.3, 0.5}}};
  for (const auto& [name, values] : expected) {
    double derivative = 0;
    EXPECT_NEAR(PenaltiesOf({1, 0, 0, KlKindOf(name)}, -0.7, 0, &derivative), values.first, 1e-12) << name;
    EXPECT_NEAR(PenaltiesOf({0, 1, 0, KlKindOf(name)}, -0.7, -1.2, &derivative), values.second, 1e-12) << name;
  }
  double derivative = 0;
  EXPECT_EQ(PenaltiesOf({0, 1, 0, KlKind::kK1}, -0.7, -1.2, &derivative),
            PenaltiesOf({0, 1, 0, KlKind::kAbs}, -0.7, -1.2, &derivative));
}

TEST(KlKinds, DerivativesAreTheFiniteDifferences) {
  constexpr double kStep = 1e-6;
  for (const KlKind kind : {KlKind::kK1, KlKind::kK2, KlKind::kK3, KlKind::kAbs}) {
    const LossCoefficients coefficients{0.3, 0.7, 0, kind};
    for (const double logprob : {-3.0, -1.4, -0.9, -0.2}) {
      double derivative = 0, unused = 0;
      PenaltiesOf(coefficients, logprob, -1.2, &derivative);
      const double above = PenaltiesOf(coefficients, logprob + kStep, -1.2, &unused);
      const double below = PenaltiesOf(coefficients, logprob - kStep, -1.2, &unused);
      EXPECT_NEAR(derivative, (above - below) / (2 * kStep), 1e-8) << static_cast<int>(kind) << " at " << logprob;
    }
  }
}

TEST(KlKinds, WithoutADifferenceNothingIsPulled) {
  for (const KlKind kind : {KlKind::kK2, KlKind::kK3, KlKind::kAbs}) {
    EXPECT_EQ(KlAt(kind, 0).value, 0);
    EXPECT_EQ(KlAt(kind, 0).derivative, 0);
  }
}

TEST(StepLoss, NamesTheCallsThatAreNotFinite) {
  TrainerOptions options;
  options.objective = "ppo_clip";
  const auto batch = PrepareBatch(Batch(), options, 10, 0);
  const auto objective = *MakeObjective(options);
  StepLoss loss(*objective, {}, *batch);
  const std::vector<tree::LossEntry> entries = {{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 2, 0}};
  const std::vector<double> logprobs = {-1, std::nan(""), -1}, entropy(3, 0.0);
  std::vector<double> by_logprob(3), by_entropy(3);
  EXPECT_FALSE(std::isfinite(loss.Evaluate(entries, logprobs, entropy, by_logprob, by_entropy)));
  EXPECT_THAT(loss.non_finite_calls(), ::testing::ElementsAre(1));
}

}  // namespace
}  // namespace ingot::trainer::preset_test
