#include "rollout/sampling/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "kernels/attention/attention.h"

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

int32_t Draw(Sampler& sampler, const std::vector<float>& row, const DrawOptions& options, int64_t index) {
  return *sampler.Draw({row, {}}, options, index);
}

// The race by definition, in the C library's functions, over a distribution's possible tokens.
int32_t PlainWinner(const std::vector<float>& row, const std::vector<double>& distribution, uint64_t seed,
                    int64_t index) {
  int32_t winner = -1;
  long double best = 0;
  for (size_t id = 0; id < row.size(); ++id) {
    if (!(distribution[id] > 0)) continue;
    const uint64_t hash = base::DeriveSeed(base::DeriveSeed(seed, static_cast<uint64_t>(index)), id);
    const long double complement = (static_cast<long double>(~hash) + 0.5L) * 0x1p-64L;
    const long double time = std::log(-std::log1p(-complement)) - static_cast<long double>(row[id]);
    if (winner >= 0 && !(time < best)) continue;
    winner = static_cast<int32_t>(id);
    best = time;
  }
  return winner;
}

// The value that a chi-square variable exceeds with probability 0.001 (Wilson and Hilferty, to a few percent).
double Chi2Bound(double df) {
  const double t = 2 / (9 * df);
  return df * std::pow(1 - t + 3.09 * std::sqrt(t), 3);
}

// Pearson's statistic over the possible tokens. Tokens expected less than 20 times are counted as one. A draw of an
// impossible token is a failure. The seed is fixed, so the test's answer is too.
void ExpectCountsFollow(const std::vector<int>& counts, const std::vector<double>& expected) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  double chi2 = 0, rare_mean = 0, rare_count = 0, df = -1;
  const auto add = [&](double count, double mean) {
    chi2 += (count - mean) * (count - mean) / mean;
    ++df;
  };
  for (size_t id = 0; id < counts.size(); ++id) {
    const double mean = expected[id] * draws;
    if (expected[id] == 0) {
      EXPECT_EQ(counts[id], 0) << "token " << id << " was cut off";
    } else if (mean < 20) {
      rare_mean += mean;
      rare_count += counts[id];
    } else {
      add(counts[id], mean);
    }
  }
  if (rare_mean >= 5) add(rare_count, rare_mean);
  if (df > 0) {
    EXPECT_LE(chi2, Chi2Bound(df)) << df + 1 << " classes of tokens";
  }
}

void ExpectDrawsFollow(const std::vector<float>& row, const v1::SamplingParams& params) {
  std::vector<int> counts(row.size(), 0);
  const DrawOptions options = DrawOptions::From(params);
  Sampler sampler;
  for (int n = 0; n < 1000000; ++n) ++counts[Draw(sampler, row, options, n)];
  ExpectCountsFollow(counts, Truncated(row, params));
}

TEST(SamplingTest, DrawsFollowTheSoftmax) {
  ExpectDrawsFollow(RandomRow(40, 3), Params(1));
  std::vector<double> steep;  // from 0.6 to 1e-13
  for (int i = 0; i < 40; ++i) steep.push_back(-0.75 * (i * 7 % 40));
  ExpectDrawsFollow(LogSoftmax(steep), Params(1));
}
TEST(SamplingTest, DrawsFollowTopK) { ExpectDrawsFollow(RandomRow(40, 4), Params(1, 7)); }
TEST(SamplingTest, DrawsFollowTopP) { ExpectDrawsFollow(RandomRow(40, 5), Params(1, 0, 0.7f)); }
TEST(SamplingTest, DrawsFollowMinP) { ExpectDrawsFollow(RandomRow(40, 6), Params(1, 0, 0, 0.2f)); }
TEST(SamplingTest, DrawsFollowAllCutsTogether) {
  ExpectDrawsFollow(RandomRow(40, 7), Params(1, 20, 0.9f, 0.05f));
  ExpectDrawsFollow(RandomRow(40, 8), Params(1, 3, 0.99f, 0.3f));
}

// A draw is decided by the tokens that may be drawn: those of the definition, with equals in order of their ids.
TEST(SamplingTest, TheWinnerIsThatOfThePlainRaceOverTheTruncatedRow) {
  Sampler sampler;
  for (int r = 0; r < 4000; ++r) {
    const size_t vocab = r % 100 == 0 ? 20000 : 1 + base::DeriveSeed(r, 0) % 200;
    std::vector<float> row = RandomRow(vocab, r);
    if (r % 3 == 0) {
      for (float& entry : row) entry = std::round(2 * entry) / 2;  // many equals
    }
    const auto uniform = [&](uint64_t n) { return static_cast<float>(base::UniformAt(r, n)); };
    const v1::SamplingParams params = Params(1, r % 2 == 0 ? 0 : static_cast<int>(base::DeriveSeed(r, 1) % (vocab + 5)),
                                             r % 5 < 2 ? 0 : uniform(2), r % 7 < 4 ? 0 : uniform(3), r);
    const std::vector<double> distribution = Truncated(row, params);
    for (int n = 0; n < 5; ++n) {
      ASSERT_EQ(Draw(sampler, row, DrawOptions::From(params), n), PlainWinner(row, distribution, r, n))
          << params.ShortDebugString();
    }
  }
}

// Neighbouring indices, and neighbouring seeds, share nothing.
TEST(SamplingTest, DrawsOfNeighbouringIndicesAndSeedsAreIndependent) {
  const std::vector<float> row = LogSoftmax({0, 1, 2, 0.5});
  const std::vector<double> alone = Truncated(row, Params(1));
  std::vector<double> both;
  for (const double a : alone) {
    for (const double b : alone) both.push_back(a * b);
  }
  Sampler sampler;
  std::vector<int> by_index(16, 0), by_seed(16, 0);
  for (int n = 0; n < 200000; ++n) {
    const auto draw = [&](uint64_t seed, int64_t index) {
      return Draw(sampler, row, DrawOptions::From(Params(1, 0, 0, 0, seed)), index);
    };
    ++by_index[draw(5, 2 * n) * 4 + draw(5, 2 * n + 1)];
    ++by_seed[draw(2 * n, 3) * 4 + draw(2 * n + 1, 3)];
  }
  ExpectCountsFollow(by_index, both);
  ExpectCountsFollow(by_seed, both);
}

TEST(SamplingTest, ANucleusAlwaysHoldsTheMostLikely) {
  const std::vector<float> row = LogSoftmax({0, 9, 1});
  const DrawOptions options = DrawOptions::From(Params(1, 0, 1e-6f));
  Sampler sampler;
  for (int n = 0; n < 100; ++n) EXPECT_EQ(Draw(sampler, row, options, n), 1);
}

TEST(SamplingTest, GreedyAndTopOneTakeTheSmallestIdAmongEquals) {
  const std::vector<float> row = LogSoftmax({1, 3, 3, 0});
  Sampler sampler;
  const DrawOptions greedy = DrawOptions::From(Params(0)), top_one = DrawOptions::From(Params(1, 1));
  for (int n = 0; n < 50; ++n) {
    EXPECT_EQ(Draw(sampler, row, greedy, n), 1);
    EXPECT_EQ(Draw(sampler, row, top_one, n), 1);
  }
}

TEST(SamplingTest, ADrawDependsOnSeedAndIndexAlone) {
  const std::vector<float> row = RandomRow(50, 9);
  const DrawOptions options = DrawOptions::From(Params(1, 0, 0, 0, 77));
  const DrawOptions other = DrawOptions::From(Params(1, 0, 0, 0, 78));
  Sampler a, b;
  std::vector<int32_t> first, second, third;
  for (int n = 0; n < 64; ++n) first.push_back(Draw(a, row, options, n));
  for (int n = 63; n >= 0; --n) {
    Draw(a, row, other, n);
    second.push_back(Draw(b, row, options, n));
    third.push_back(Draw(b, row, other, n));
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
  for (int n = 0; n < 200; ++n) drawn.insert(Draw(sampler, row, options, n));
  EXPECT_EQ(drawn, (std::set<int32_t>{1, 3}));
}

// Every kind of draw, over rows that penalties, masks and low temperatures leave: any sum, ids listed or not.
std::vector<DrawOptions> AllKindsOfDraws(uint64_t seed) {
  std::vector<DrawOptions> all;
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int top_k : {0, 1, 5, 1000}) {
      for (const float top_p : {0.0f, 1e-30f, 0.9f}) {
        for (const float min_p : {0.0f, 1e-30f, 0.1f, 1.0f}) {
          all.push_back(DrawOptions::From(Params(temperature, top_k, top_p, min_p, seed)));
        }
      }
    }
  }
  return all;
}

TEST(SamplingTest, AMaskedRowIsDrawnFromAsTheListOfItsIds) {
  const float never = -std::numeric_limits<float>::infinity();
  Sampler sampler;
  for (int r = 0; r < 200; ++r) {
    std::vector<float> row = RandomRow(500, r), compact;
    const float constant = r % 2 == 0 ? 0 : -4096;  // allowed tokens of e^-4096 and less
    for (float& entry : row) entry = std::round(entry * 64) / 64 + constant;
    const std::vector<float> whole = row;
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < 500; ++id) {
      if (base::DeriveSeed(r, id) % 10 != 0) {
        row[id] = never;
        continue;
      }
      ids.push_back(id);
      compact.push_back(whole[id] - constant);
    }
    for (const DrawOptions& options : AllKindsOfDraws(r)) {
      const int32_t drawn = Draw(sampler, row, options, r);
      ASSERT_EQ(*sampler.Draw({compact, ids}, options, r), drawn);
      // The winner among all is the winner of every row that still holds it, if nothing is cut by a sum.
      const int32_t of_all = Draw(sampler, whole, options, r);
      if (options.temperature == 1 && options.top_k == 0 && options.top_p == 0 && options.min_p == 0 &&
          row[of_all] > never) {
        ASSERT_EQ(drawn, of_all);
      }
    }
  }
}

TEST(SamplingTest, ARowWithOneIdLeftGivesThatIdAndARowWithNoneAnError) {
  const float never = -std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Sampler sampler;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, ~uint64_t{0}}) {
    for (const DrawOptions& options : AllKindsOfDraws(seed)) {
      for (const int64_t index : {int64_t{0}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
        for (const float none : {never, nan}) {
          std::vector<float> row(70, none);
          EXPECT_EQ(sampler.Draw({row, {}}, options, index).status().code(), absl::StatusCode::kFailedPrecondition);
          row[67] = -2000;
          EXPECT_EQ(Draw(sampler, row, options, index), 67);
        }
      }
      EXPECT_EQ(sampler.Draw({}, options, 0).status().code(), absl::StatusCode::kFailedPrecondition);
    }
  }
}

// Bits of any kind: infinite, not a number, denormal. A draw ends, and gives an id of the row or an error.
TEST(SamplingTest, ARowOfAnyBitsIsDrawnFromOrRejected) {
  Sampler sampler;
  for (int r = 0; r < 3000; ++r) {
    std::vector<float> row(1 + base::DeriveSeed(r, 0) % 60);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = std::bit_cast<float>(static_cast<uint32_t>(base::DeriveSeed(r, i + 1) >> (r % 32)));
      if (r % 4 == 0 && i % 5 == 0) row[i] = std::numeric_limits<float>::infinity();
    }
    for (const DrawOptions& options : AllKindsOfDraws(r)) {
      const absl::StatusOr<int32_t> drawn = sampler.Draw({row, {}}, options, r);
      if (!drawn.ok()) continue;
      ASSERT_GE(*drawn, 0);
      ASSERT_LT(*drawn, std::ssize(row));
      ASSERT_GT(row[*drawn], -std::numeric_limits<float>::infinity());
    }
  }
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

TEST(SamplingTest, BadParametersAreRejectedByName) {
  const auto fault = [](const v1::SamplingParams& params) { return std::string(ValidateSampling(params).message()); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(fault(Params(-1)).find("temperature"), std::string::npos);
  EXPECT_NE(fault(Params(nan)).find("temperature"), std::string::npos);
  EXPECT_NE(fault(Params(1e-5f)).find("temperature"), std::string::npos);
  for (const float bad : {nan, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    EXPECT_NE(fault(Params(bad)).find("temperature"), std::string::npos);
    EXPECT_NE(fault(Params(1, 0, bad)).find("top_p"), std::string::npos);
    EXPECT_NE(fault(Params(1, 0, 0, bad)).find("min_p"), std::string::npos);
  }
  EXPECT_NE(fault(Params(1, -1)).find("top_k"), std::string::npos);
  EXPECT_NE(fault(Params(1, 0, 1.5f)).find("top_p"), std::string::npos);
  EXPECT_NE(fault(Params(1, 0, 0, nan)).find("min_p"), std::string::npos);
  v1::SamplingParams none = Params(1);
  none.set_max_new_tokens(0);
  EXPECT_NE(fault(none).find("max_new_tokens"), std::string::npos);
  EXPECT_EQ(fault(Params(1, 5, 0.5f, 0.1f)), "");
}

// Lowers the instruction set for the rest of the process, so this test is the last one.
TEST(SamplingTest, EveryInstructionSetDrawsTheSameTokens) {
  Sampler sampler;
  const auto draws = [&] {
    std::vector<int32_t> ids;
    for (int r = 0; r < 300; ++r) {
      const std::vector<float> row = RandomRow(r % 50 == 0 ? 30000 : 300, r);
      for (const DrawOptions& options : AllKindsOfDraws(r)) ids.push_back(Draw(sampler, row, options, r));
    }
    return ids;
  };
  const std::vector<int32_t> expected = draws();
  for (const char* set : {"avx512", "avx2", "portable"}) {
    kernels::LimitInstructionSet(set);
    EXPECT_EQ(draws(), expected) << set;
  }
}

}  // namespace
}  // namespace ingot::rollout
