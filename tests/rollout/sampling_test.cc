#include "rollout/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace ingot::rollout {
namespace {

std::vector<float> LogSoftmax(const std::vector<double>& logits) {
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  std::vector<float> row;
  for (const double logit : logits) row.push_back(static_cast<float>(logit - std::log(sum)));
  return row;
}

std::vector<float> RandomRow(size_t vocab, uint64_t seed) {
  std::vector<double> logits;
  for (size_t i = 0; i < vocab; ++i) logits.push_back(5 * base::UniformAt(seed, i));
  return LogSoftmax(logits);
}

v1::SamplingParams Params(float temperature, int top_k = 0, float top_p = 0, float min_p = 0, uint64_t seed = 1) {
  v1::SamplingParams params;
  params.set_temperature(temperature);
  params.set_top_k(top_k);
  params.set_top_p(top_p);
  params.set_min_p(min_p);
  params.set_seed(seed);
  params.set_max_new_tokens(1);
  return params;
}

// The truncated distribution by definition, from a sorted row: the reference.
std::vector<double> Truncated(const std::vector<float>& row, const v1::SamplingParams& params) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
  if (params.top_k() > 0) order.resize(std::min<size_t>(order.size(), params.top_k()));
  const auto p = [&](int id) { return std::exp(static_cast<double>(row[id])); };
  double total = 0;
  for (const int id : order) total += p(id);
  if (params.top_p() > 0 && params.top_p() < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < order.size() && sum < params.top_p() * total) sum += p(order[kept++]);
    order.resize(kept);
  }
  std::erase_if(order, [&, most = p(order[0])](int id) { return p(id) < params.min_p() * most; });
  total = 0;
  for (const int id : order) total += p(id);
  std::vector<double> distribution(row.size(), 0);
  for (const int id : order) distribution[id] = p(id) / total;
  return distribution;
}

// Pearson's statistic over the possible tokens. A draw of an impossible token is a failure.
void ExpectDrawsFollow(const std::vector<float>& row, const v1::SamplingParams& params) {
  constexpr int kDraws = 40000;
  const std::vector<double> expected = Truncated(row, params);
  std::vector<int> counts(row.size(), 0);
  const DrawOptions options = DrawOptions::From(params);
  Sampler sampler;
  for (int n = 0; n < kDraws; ++n) ++counts[sampler.Draw(row, options, n)];
  double chi2 = 0;
  int possible = 0;
  for (size_t id = 0; id < row.size(); ++id) {
    if (expected[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "token " << id << " was cut off";
      continue;
    }
    ++possible;
    const double mean = expected[id] * kDraws;
    chi2 += (counts[id] - mean) * (counts[id] - mean) / mean;
  }
  // Mean df, variance 2 df. The bound is six standard deviations.
  const double df = possible - 1;
  EXPECT_LE(chi2, df + 6 * std::sqrt(2 * df) + 1e-9) << possible << " possible tokens";
}

TEST(SamplingTest, DrawsFollowTheSoftmax) { ExpectDrawsFollow(RandomRow(40, 3), Params(1)); }
TEST(SamplingTest, DrawsFollowTopK) { ExpectDrawsFollow(RandomRow(40, 4), Params(1, 7)); }
TEST(SamplingTest, DrawsFollowTopP) { ExpectDrawsFollow(RandomRow(40, 5), Params(1, 0, 0.7f)); }
TEST(SamplingTest, DrawsFollowMinP) { ExpectDrawsFollow(RandomRow(40, 6), Params(1, 0, 0, 0.2f)); }
TEST(SamplingTest, DrawsFollowAllCutsTogether) {
  ExpectDrawsFollow(RandomRow(40, 7), Params(1, 20, 0.9f, 0.05f));
  ExpectDrawsFollow(RandomRow(40, 8), Params(1, 3, 0.99f, 0.3f));
}

TEST(SamplingTest, ANucleusAlwaysHoldsTheMostLikely) {
  const std::vector<float> row = LogSoftmax({0, 9, 1});
  const DrawOptions options = DrawOptions::From(Params(1, 0, 1e-6f));
  Sampler sampler;
  for (int n = 0; n < 100; ++n) EXPECT_EQ(sampler.Draw(row, options, n), 1);
}

TEST(SamplingTest, GreedyAndTopOneTakeTheSmallestIdAmongEquals) {
  const std::vector<float> row = LogSoftmax({1, 3, 3, 0});
  Sampler sampler;
  const DrawOptions greedy = DrawOptions::From(Params(0)), top_one = DrawOptions::From(Params(1, 1));
  for (int n = 0; n < 50; ++n) {
    EXPECT_EQ(sampler.Draw(row, greedy, n), 1);
    EXPECT_EQ(sampler.Draw(row, top_one, n), 1);
  }
}

TEST(SamplingTest, ADrawDependsOnSeedAndIndexAlone) {
  const std::vector<float> row = RandomRow(50, 9);
  const DrawOptions options = DrawOptions::From(Params(1, 0, 0, 0, 77));
  const DrawOptions other = DrawOptions::From(Params(1, 0, 0, 0, 78));
  Sampler a, b;
  std::vector<int32_t> first, second, third;
  for (int n = 0; n < 64; ++n) first.push_back(a.Draw(row, options, n));
  for (int n = 63; n >= 0; --n) {
    a.Draw(row, other, n);
    second.push_back(b.Draw(row, options, n));
    third.push_back(b.Draw(row, other, n));
  }
  std::reverse(second.begin(), second.end());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
}

TEST(SamplingTest, ImpossibleTokensAreNeverDrawn) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> row = {never, std::log(0.5f), never, std::log(0.5f), never};
  Sampler sampler;
  const DrawOptions options = DrawOptions::From(Params(1));
  std::set<int32_t> drawn;
  for (int n = 0; n < 200; ++n) drawn.insert(sampler.Draw(row, options, n));
  EXPECT_EQ(drawn, (std::set<int32_t>{1, 3}));
}

TEST(SamplingTest, ARowWithASmallerSumIsDrawnFromInItsShares) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> row = {std::log(0.1f), never, std::log(0.3f), never};
  Sampler sampler;
  const DrawOptions options = DrawOptions::From(Params(1));
  int counts[4] = {};
  for (int n = 0; n < 40000; ++n) ++counts[sampler.Draw(row, options, n, 0.4)];
  EXPECT_EQ(counts[1] + counts[3], 0);
  EXPECT_NEAR(counts[0], 10000, 6 * std::sqrt(40000 * 0.25 * 0.75));
}

TEST(SamplingTest, TopLogprobsAreTheMostLikelyFirst) {
  const std::vector<float> row = LogSoftmax({1, 3, 2, 3});
  const v1::TopLogprobs top = TopOf(row, 3);
  ASSERT_EQ(top.entries_size(), 3);
  EXPECT_EQ(top.entries(0).token_id(), 1);
  EXPECT_EQ(top.entries(1).token_id(), 3);
  EXPECT_EQ(top.entries(2).token_id(), 2);
  EXPECT_EQ(top.entries(2).logprob(), row[2]);
  EXPECT_EQ(TopOf(row, 20).entries_size(), 4);
}

TEST(SamplingTest, BadParametersAreRefusedByName) {
  const auto fault = [](const v1::SamplingParams& params) { return std::string(ValidateSampling(params).message()); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(fault(Params(-1)).find("temperature"), std::string::npos);
  EXPECT_NE(fault(Params(nan)).find("temperature"), std::string::npos);
  EXPECT_NE(fault(Params(1e-5f)).find("temperature"), std::string::npos);
  EXPECT_NE(fault(Params(1, -1)).find("top_k"), std::string::npos);
  EXPECT_NE(fault(Params(1, 0, 1.5f)).find("top_p"), std::string::npos);
  EXPECT_NE(fault(Params(1, 0, 0, nan)).find("min_p"), std::string::npos);
  v1::SamplingParams none = Params(1);
  none.set_max_new_tokens(0);
  EXPECT_NE(fault(none).find("max_new_tokens"), std::string::npos);
  EXPECT_EQ(fault(Params(1, 5, 0.5f, 0.1f)), "");
}

}  // namespace
}  // namespace ingot::rollout
