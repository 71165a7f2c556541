#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/attention/attention_reference.h"

namespace ingot::kernels {
namespace {

using testing::RandomVector;
using testing::Threads;
using testing::Wide;

template <typename T>
struct Rows {
  Rows(std::mt19937_64& rng, int64_t rows, int64_t vocab)
      : logits(RandomVector<T>(rng, rows * vocab, 4)), temperature(rows), top(rows), log_sum(rows), entropy(rows) {
    const T choices[] = {1, T(0.7), 2, 1, T(1.3)};
    for (int64_t r = 0; r < rows; ++r) temperature[r] = choices[r % 5];
    args = {logits.data(), rows, vocab, temperature.data(), top.data(), log_sum.data(), entropy.data()};
  }

  // log p of row r in fp64, by definition.
  std::vector<double> LogPolicyOf(int64_t r) const {
    std::vector<double> y(args.vocab);
    double top = -std::numeric_limits<double>::infinity();
    long double sum = 0;  // so that the reference is more exact than fp64
    for (int64_t i = 0; i < args.vocab; ++i) {
      y[i] = static_cast<double>(logits[r * args.vocab + i]) / temperature[r];
      top = std::max(top, y[i]);
    }
    for (const double v : y) sum += std::exp(v - top);
    for (double& v : y) v = static_cast<double>(v - (top + std::log(sum)));
    return y;
  }

  std::vector<T> logits, temperature, top, log_sum, entropy;
  PolicyRows<T> args;
};

// Widths around one vector's, several vectors' and a block's.
constexpr int64_t kVocabs[] = {1, 2, 7, 15, 16, 63, 64, 65, 260, 4095, 4096, 4097, 9001};

template <typename T>
void LogPolicyIsTheDefinition(double tolerance) {
  std::mt19937_64 rng(1);
  for (const int64_t vocab : kVocabs) {
    SCOPED_TRACE(vocab);
    Rows<T> rows(rng, 7, vocab);
    SumPolicy(rows.args, Threads(2));
    std::vector<T> out(7 * vocab + 8, T(77));
    LogPolicy(rows.args, out.data(), Threads(2));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(out[7 * vocab + i], 77) << "wrote past the end";
    for (int64_t r = 0; r < 7; ++r) {
      const std::vector<double> want = rows.LogPolicyOf(r);
      long double entropy = 0;
      for (int64_t i = 0; i < vocab; ++i) {
        // Rounding of y and of a few subtractions: units in the last place of the largest intermediate number.
        ASSERT_NEAR(out[r * vocab + i], want[i], tolerance * (30 + std::abs(want[i]))) << r << " " << i;
        entropy -= std::exp(static_cast<long double>(want[i])) * want[i];
      }
      EXPECT_NEAR(rows.entropy[r], static_cast<double>(entropy), 40 * tolerance);
    }
  }
}

TEST(LogPolicy, IsTheDefinition) {
  LogPolicyIsTheDefinition<float>(2e-7);
  LogPolicyIsTheDefinition<double>(4e-16);
}

TEST(LogPolicy, OfATokenHasTheBitsOfTheWholeRows) {
  std::mt19937_64 rng(2);
  Rows<float> rows(rng, 10, 777);
  SumPolicy(rows.args, Serial);
  std::vector<float> out(rows.logits.size());
  LogPolicy(rows.args, out.data(), Serial);
  for (int64_t r = 0; r < 10; ++r) {
    for (int64_t i = 0; i < 777; ++i) {
      ASSERT_EQ(out[r * 777 + i], (rows.logits[r * 777 + i] - rows.top[r]) / rows.temperature[r] - rows.log_sum[r]);
    }
  }
}

// Two tokens with almost equal logits, far from zero and at a low temperature: z / t alone would be off by 2^-11.
TEST(LogPolicy, IsExactNearTheTopAtLowTemperatures) {
  std::vector<float> z = {300, 300 - 0x1p-11f, 250}, temperature = {1e-3f}, out(3);
  float top, log_sum, entropy;
  const PolicyRows<float> row{z.data(), 1, 3, temperature.data(), &top, &log_sum, &entropy};
  SumPolicy(row, Serial);
  LogPolicy(row, out.data(), Serial);
  const double d = -0x1p-11 / static_cast<double>(temperature[0]), sum = std::log1p(std::exp(d));
  EXPECT_NEAR(out[0], -sum, 1e-7);
  EXPECT_NEAR(out[1], d - sum, 1e-7);
  EXPECT_NEAR(out[2], -50 / static_cast<double>(temperature[0]) - sum, 0.01);
}

TEST(LogPolicy, ARowDependsOnItselfAloneAndMayOverwriteItsLogits) {
  std::mt19937_64 rng(3);
  constexpr int64_t kRows = 41, kVocab = 1003;
  Rows<float> rows(rng, kRows, kVocab);
  SumPolicy(rows.args, Threads(3));
  std::vector<float> all(rows.logits.size());
  LogPolicy(rows.args, all.data(), Threads(3));
  for (const int64_t r : {0, 1, 2, 20, 40}) {
    std::vector<float> one(rows.logits.begin() + r * kVocab, rows.logits.begin() + (r + 1) * kVocab);
    float top, log_sum, entropy;
    const PolicyRows<float> alone{one.data(), 1, kVocab, &rows.temperature[r], &top, &log_sum, &entropy};
    SumPolicy(alone, Serial);
    LogPolicy(alone, one.data(), Serial);
    EXPECT_EQ(entropy, rows.entropy[r]);
    EXPECT_TRUE(std::equal(one.begin(), one.end(), all.begin() + r * kVocab)) << r;
  }
}

TEST(LogPolicy, RowsThatAreNotFiniteGiveNotANumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937_64 rng(4);
  for (const int64_t at : {0, 1, 17, 63, 64, 99}) {
    for (const float value : {std::nanf(""), kInfinity}) {
      Rows<float> rows(rng, 3, 100);
      rows.logits[100 + at] = value;
      SumPolicy(rows.args, Serial);
      LogPolicy(rows.args, rows.logits.data(), Serial);
      for (int64_t i = 0; i < 100; ++i) EXPECT_TRUE(std::isnan(rows.logits[100 + i])) << at << " " << i;
      EXPECT_TRUE(std::isnan(rows.entropy[1]));
      EXPECT_TRUE(std::isfinite(rows.entropy[0]) && std::isfinite(rows.entropy[2]));
    }
  }
  Rows<float> rows(rng, 1, 100);  // a token of -infinity stays impossible
  rows.logits[40] = -kInfinity;
  SumPolicy(rows.args, Serial);
  LogPolicy(rows.args, rows.logits.data(), Serial);
  EXPECT_EQ(rows.logits[40], -kInfinity);
  EXPECT_TRUE(std::isfinite(rows.logits[41]));
}

template <typename T>
void SoftCapIsTheDefinition(double tolerance) {
  std::mt19937_64 rng(7);
  for (const int64_t count : {1, 3, 15, 64, 4099, 9001}) {
    std::vector<T> z = RandomVector<T>(rng, count, 40), capped = z;
    z[0] = capped[0] = T(1e-6);  // no digits cancel near 0
    SoftCapLogits(capped.data(), count, 30, Threads(2));
    for (int64_t i = 0; i < count; ++i) {
      const double want = 30 * std::tanh(static_cast<double>(z[i]) / 30);
      ASSERT_NEAR(capped[i], want, tolerance * std::abs(want)) << i;
      T alone = z[i];  // wherever it lies, and on whatever thread
      SoftCapLogits(&alone, 1, 30, Serial);
      ASSERT_EQ(alone, capped[i]) << i;
    }
  }
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  T ends[] = {kInfinity, -kInfinity, 0, std::numeric_limits<T>::quiet_NaN()};
  SoftCapLogits(ends, 4, 30, Serial);
  EXPECT_EQ(ends[0], 30);
  EXPECT_EQ(ends[1], -30);
  EXPECT_EQ(ends[2], 0);
  EXPECT_TRUE(std::isnan(ends[3]));
}

TEST(SoftCap, IsTheDefinition) {
  SoftCapIsTheDefinition<float>(5e-7);  // some units in the last place
  SoftCapIsTheDefinition<double>(1e-15);
}

template <typename T, typename Out>
void GradientIsTheFormula(double tolerance) {
  std::mt19937_64 rng(5);
  for (const int64_t vocab : kVocabs) {
    for (const bool entropy : {false, true}) {
      SCOPED_TRACE(std::to_string(vocab) + (entropy ? " with entropy" : ""));
      Rows<T> rows(rng, 5, vocab);
      if (entropy) {  // and with a soft cap
        rows.args.soft_cap = 6;
        SoftCapLogits(rows.logits.data(), 5 * vocab, 6, Serial);
      }
      const std::vector<T> logits = rows.logits;
      SumPolicy(rows.args, Serial);
      const auto of_p = RandomVector<T>(rng, 5), of_plogp = RandomVector<T>(rng, 5), addend = RandomVector<T>(rng, 6);
      // Row 1 has no token; row 2 has one token twice, and the last one.
      const std::vector<int64_t> first = {0, 1, 1, 4, 5, 6};
      const std::vector<int64_t> token = {vocab / 2, vocab / 3, vocab - 1, vocab / 3, 0, vocab - 1};
      const PolicyGradient<T> gradient{of_p.data(), entropy ? of_plogp.data() : nullptr, first.data(), token.data(),
                                       addend.data()};
      std::vector<Out> out(5 * vocab);
      PolicyBackward<T, Out>(rows.args, gradient, out.data(), Threads(2));
      for (int64_t r = 0; r < 5; ++r) {
        const std::vector<double> logp = rows.LogPolicyOf(r);
        for (int64_t i = 0; i < vocab; ++i) {
          double want = std::exp(logp[i]) * (of_p[r] + (entropy ? of_plogp[r] * logp[i] : 0));
          for (int64_t k = first[r]; k < first[r + 1]; ++k) want += token[k] == i ? static_cast<double>(addend[k]) : 0;
          if (entropy) want *= 1 - std::pow(static_cast<double>(logits[r * vocab + i]) / 6, 2);
          // exp turns the error of log p, some units of its size, into an error of p.
          ASSERT_NEAR(Wide(out[r * vocab + i]), want, tolerance * (1 + std::abs(want))) << r << " " << i;
        }
      }
      if constexpr (std::is_same_v<T, Out>) {
        PolicyBackward<T, T>(rows.args, gradient, rows.logits.data(), Serial);
        EXPECT_EQ(rows.logits, out) << "in the logits' place";
      }
    }
  }
}

TEST(PolicyBackward, IsTheFormula) {
  GradientIsTheFormula<float, float>(1e-5);
  GradientIsTheFormula<double, double>(2e-14);
  GradientIsTheFormula<float, BFloat16>(1.0 / 256);  // half a unit of its last place
}

TEST(PolicyBackward, RoundsTheSumOnceWhereItIsNarrow) {
  std::mt19937_64 rng(6);
  constexpr int64_t kVocab = 5000;
  Rows<float> rows(rng, 4, kVocab);
  SumPolicy(rows.args, Serial);
  const auto of_p = RandomVector<float>(rng, 4), addend = RandomVector<float>(rng, 4);
  const std::vector<int64_t> first = {0, 2, 2, 3, 4}, token = {4999, 4999, 17, 4096};
  const PolicyGradient<float> gradient{of_p.data(), nullptr, first.data(), token.data(), addend.data()};
  std::vector<float> wide(4 * kVocab);
  std::vector<BFloat16> narrow(wide.size());
  PolicyBackward<float, float>(rows.args, gradient, wide.data(), Serial);
  PolicyBackward<float, BFloat16>(rows.args, gradient, narrow.data(), Serial);
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(ToFloat(narrow[i]), ToFloat(ToBFloat16(wide[i]))) << i;
}

}  // namespace
}  // namespace ingot::kernels
