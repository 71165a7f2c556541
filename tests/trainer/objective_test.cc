// CISPO and cross entropy, worked by hand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer/objective.h"

namespace ingot::trainer {
namespace {

// Four tokens with ratios 1, 0.25, 8 and 2:
//   logprob   recorded          ratio
//   -1        -1                1
//   -2        -2 + ln 4         1/4
//   -0.5      -0.5 - ln 8       8
//   -3        -3 - ln 2         2
// Advantages 1, -2, 0.5, 1; weights 0.1, 0.2, 0.3, 0.4.
struct Example {
  at::Tensor logprobs = at::tensor({-1.0, -2.0, -0.5, -3.0}, at::kDouble).requires_grad_(true);
  LossEntries entries{logprobs,
                      at::tensor({-1.0, -2.0 + std::log(4.0), -0.5 - std::log(8.0), -3.0 - std::log(2.0)}, at::kDouble),
                      at::tensor({1.0, -2.0, 0.5, 1.0}, at::kDouble), at::tensor({0.1, 0.2, 0.3, 0.4}, at::kDouble)};
};

void ExpectGradient(const Example& example, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(example.logprobs.grad()[static_cast<int64_t>(i)].item<double>(), expected[i], 1e-12) << i;
  }
}

TEST(Cispo, ClipsTheRatioAndKeepsEveryTokensGradient) {
  // Default clip [0, 5]: held ratios 1, 0.25, 5, 2. Coefficients ratio * A * weight:
  //   1 * 1 * 0.1 = 0.1;  0.25 * -2 * 0.2 = -0.1;  5 * 0.5 * 0.3 = 0.75;  2 * 1 * 0.4 = 0.8
  // loss = -(0.1 * -1 + -0.1 * -2 + 0.75 * -0.5 + 0.8 * -3) = 2.675
  const Example example;
  const at::Tensor loss = MakeCispo(1.0, 4.0)->Loss(example.entries);
  EXPECT_NEAR(loss.item<double>(), 2.675, 1e-12);
  loss.backward();
  // The clipped token (the third) still has its gradient, and the ratio is not differentiated.
  ExpectGradient(example, {-0.1, 0.1, -0.75, -0.8});
}

TEST(Cispo, ClipsBelowToo) {
  // Clip [0.5, 1.5]: held ratios 1, 0.5, 1.5, 1.5; coefficients 0.1, -0.2, 0.225, 0.6.
  // loss = -(-0.1 + 0.4 - 0.1125 - 1.8) = 1.6125
  const Example example;
  const at::Tensor loss = MakeCispo(0.5, 0.5)->Loss(example.entries);
  EXPECT_NEAR(loss.item<double>(), 1.6125, 1e-12);
  loss.backward();
  ExpectGradient(example, {-0.1, 0.2, -0.225, -0.6});
}

TEST(Cispo, TalliesUnclippedRatios) {
  const Example example;
  const std::vector<double> logprobs = {-1.0, -2.0, -0.5, -3.0};
  std::vector<double> recorded;
  for (int64_t i = 0; i < 4; ++i) recorded.push_back(example.entries.recorded[i].item<double>());
  MetricSums sums;
  MakeCispo(0.5, 0.5)->Tally(logprobs, recorded, sums);
  EXPECT_DOUBLE_EQ(sums.means["actor/clipfrac_low"].mean(), 0.25);
  EXPECT_DOUBLE_EQ(sums.means["actor/clipfrac_high"].mean(), 0.5);
  EXPECT_NEAR(sums.means["cispo/ratio_mean"].mean(), 11.25 / 4, 1e-12);
  EXPECT_NEAR(sums.maxima["cispo/ratio_max"].max, 8, 1e-12);
}

TEST(Cispo, AnInfiniteRatioIsClipped) {
  const at::Tensor logprob = at::tensor({-0.5f}).requires_grad_(true);
  const LossEntries entries{logprob, at::tensor({-500.0f}), at::tensor({1.0f}), at::tensor({1.0f})};
  EXPECT_FLOAT_EQ(MakeCispo(1.0, 4.0)->Loss(entries).item<float>(), 2.5f);
}

TEST(Sft, IsTheWeightedNegativeLogLikelihood) {
  const Example example;
  // 0.1 * 1 + 0.2 * 2 + 0.3 * 0.5 + 0.4 * 3
  const at::Tensor loss = MakeSft()->Loss(example.entries);
  EXPECT_NEAR(loss.item<double>(), 1.85, 1e-12);
  loss.backward();
  ExpectGradient(example, {-0.1, -0.2, -0.3, -0.4});
}

TEST(Objective, UnknownNamesAreRefused) {
  TrainerOptions options;
  options.objective = "ppo";
  EXPECT_FALSE(MakeObjective(options).ok());
}

}  // namespace
}  // namespace ingot::trainer
