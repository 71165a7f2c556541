#include "kernels/layers.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/attention/attention_reference.h"

namespace ingot::kernels {
namespace {

using testing::RandomVector;
using testing::RelativeError;
using testing::Threads;

template <typename T>
std::vector<T> RunLinear(const std::vector<T>& x, const std::vector<T>& w, const T* bias, int64_t rows, int64_t in,
                         int64_t out, const ParallelFor& parallel) {
  std::vector<T> y(rows * out + 8, T(77));
  Linear<T>({x.data(), w.data(), bias, y.data(), rows, in, out, 0}, parallel);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(y[rows * out + i], 77) << "wrote past the end";
  y.resize(rows * out);
  return y;
}

template <typename T>
void LinearEqualsSums(double tolerance) {
  std::mt19937_64 rng(1);
  for (const auto& [rows, in, out] : {std::tuple{1, 5, 3}, {7, 64, 65}, {100, 128, 70}, {97, 1100, 9}, {2, 513, 130}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out));
    const auto x = RandomVector<T>(rng, rows * in), w = RandomVector<T>(rng, out * in),
               bias = RandomVector<T>(rng, out);
    std::vector<double> want;
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) {
        double sum = bias[o];
        for (int i = 0; i < in; ++i) sum += static_cast<double>(x[r * in + i]) * w[o * in + i];
        want.push_back(sum);
      }
    }
    EXPECT_LT(RelativeError(RunLinear<T>(x, w, bias.data(), rows, in, out, Threads(2)), want), tolerance);
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) want[r * out + o] -= bias[o];
    }
    EXPECT_LT(RelativeError(RunLinear<T>(x, w, nullptr, rows, in, out, Serial), want), tolerance);
  }
}

TEST(Linear, EqualsPlainSums) {
  LinearEqualsSums<float>(1e-6);
  LinearEqualsSums<double>(1e-14);
}

TEST(Linear, ARowDoesNotDependOnTheOthersNorOnThreads) {
  std::mt19937_64 rng(2);
  const int64_t rows = 203, in = 700, out = 150;
  const auto x = RandomVector<float>(rng, rows * in), w = RandomVector<float>(rng, out * in);
  const auto all = RunLinear<float>(x, w, nullptr, rows, in, out, Serial);
  EXPECT_EQ(all, RunLinear<float>(x, w, nullptr, rows, in, out, Threads(3)));
  for (int64_t r : {0, 5, 6, 96, 202}) {
    for (int64_t n : {1, 2, 5}) {
      if (r + n > rows) continue;
      const std::vector<float> some(x.begin() + r * in, x.begin() + (r + n) * in);
      const auto alone = RunLinear<float>(some, w, nullptr, n, in, out, Serial);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + r * out)) << r << " " << n;
    }
  }
}

// Central differences of sum(f(x) * mix) in fp64.
template <typename F>
std::vector<double> Gradient(std::vector<double> at, const std::vector<double>& mix, const F& f) {
  constexpr double kStep = 1e-5;
  std::vector<double> gradient(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const double x = at[i];
    double side[2];
    for (int s = 0; s < 2; ++s) {
      at[i] = x + (s == 0 ? kStep : -kStep);
      const std::vector<double> y = f(at);
      side[s] = 0;
      for (size_t k = 0; k < y.size(); ++k) side[s] += y[k] * mix[k];
    }
    at[i] = x;
    gradient[i] = (side[0] - side[1]) / (2 * kStep);
  }
  return gradient;
}

TEST(RmsNorm, EqualsItsFormulaAndItsGradientTheDifferences) {
  std::mt19937_64 rng(3);
  const int64_t rows = 35, n = 21;
  const auto x = RandomVector<double>(rng, rows * n), w = RandomVector<double>(rng, n),
             mix = RandomVector<double>(rng, rows * n);
  const auto formula = [&](const std::vector<double>& in, const std::vector<double>& weight) {
    std::vector<double> y(in.size());
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += in[r * n + i] * in[r * n + i];
      for (int64_t i = 0; i < n; ++i) y[r * n + i] = in[r * n + i] / std::sqrt(sum / n + 1e-3) * weight[i];
    }
    return y;
  };
  std::vector<double> y(x.size()), inverse(rows), grad_x(x.size()), grad_w(n);
  RmsNormArgs<double> args{.x = x.data(), .weight = w.data(), .eps = 1e-3, .rows = rows, .n = n};
  RmsNorm<double>(args, y.data(), inverse.data(), Threads(2));
  EXPECT_LT(RelativeError(y, formula(x, w)), 1e-14);
  RmsNormBackward<double>(args, mix.data(), nullptr, inverse.data(), grad_x.data(), grad_w.data(), Threads(2));
  EXPECT_LT(RelativeError(grad_x, Gradient(x, mix, [&](const auto& at) { return formula(at, w); })), 1e-8);
  EXPECT_LT(RelativeError(grad_w, Gradient(w, mix, [&](const auto& at) { return formula(x, at); })), 1e-8);

  // A gradient that reaches the sum past the norm is added.
  std::vector<double> past(grad_x);
  RmsNormBackward<double>(args, mix.data(), y.data(), inverse.data(), past.data(), grad_w.data(), Threads(2));
  for (size_t i = 0; i < past.size(); ++i) ASSERT_EQ(past[i], y[i] + grad_x[i]) << i;

  // With `plus`: as if x had been the sum.
  std::vector<double> half(x), sum(x.size()), of_sum(x.size()), inverse_of_sum(rows);
  for (double& number : half) number /= 2;
  RmsNorm<double>(
      {.x = half.data(), .plus = half.data(), .sum = sum.data(), .weight = w.data(), .eps = 1e-3, .rows = rows, .n = n},
      of_sum.data(), inverse_of_sum.data(), Threads(2));
  EXPECT_EQ(sum, x);
  EXPECT_EQ(of_sum, y);
  EXPECT_EQ(inverse_of_sum, inverse);
}

TEST(NormRotate, EqualsItsFormulaAndItsGradientTheDifferences) {
  std::mt19937_64 rng(4);
  const int64_t rows = 34, heads = 3, dim = 10, half = dim / 2;
  const auto x = RandomVector<double>(rng, rows * heads * dim), w = RandomVector<double>(rng, dim),
             mix = RandomVector<double>(rng, rows * heads * dim);
  std::vector<double> cos, sin;
  for (int64_t p = 0; p < 50; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      cos.push_back(std::cos(p * 0.3 / (i + 1)));
      sin.push_back(std::sin(p * 0.3 / (i + 1)));
    }
  }
  std::vector<int64_t> positions(rows);
  for (int64_t& p : positions) p = static_cast<int64_t>(rng() % 50);
  for (const bool norm : {true, false}) {
    const auto formula = [&](const std::vector<double>& in, const std::vector<double>& weight) {
      std::vector<double> y(in.size());
      for (int64_t h = 0; h < rows * heads; ++h) {
        double sum = 0;
        for (int64_t i = 0; i < dim; ++i) sum += in[h * dim + i] * in[h * dim + i];
        const double f = norm ? 1 / std::sqrt(sum / dim + 1e-3) : 1;
        for (int64_t i = 0; i < half; ++i) {
          const int64_t at = positions[h / heads] * half + i;
          const double a = in[h * dim + i] * (norm ? f * weight[i] : 1);
          const double b = in[h * dim + half + i] * (norm ? f * weight[half + i] : 1);
          y[h * dim + i] = a * cos[at] - b * sin[at];
          y[h * dim + half + i] = b * cos[at] + a * sin[at];
        }
      }
      return y;
    };
    std::vector<double> y(x.size()), inverse(rows * heads), grad_x(x.size()), grad_w(dim);
    const RotateArgs<double> args{
        x.data(), norm ? w.data() : nullptr, 1e-3, cos.data(), sin.data(), positions.data(), rows, heads, dim, 0};
    NormRotate<double>(args, y.data(), inverse.data(), Threads(2));
    EXPECT_LT(RelativeError(y, formula(x, w)), 1e-14);
    NormRotateBackward<double>(args, mix.data(), inverse.data(), grad_x.data(), grad_w.data(), Threads(2));
    EXPECT_LT(RelativeError(grad_x, Gradient(x, mix, [&](const auto& at) { return formula(at, w); })), 1e-8);
    if (norm) {
      EXPECT_LT(RelativeError(grad_w, Gradient(w, mix, [&](const auto& at) { return formula(x, at); })), 1e-8);
    }
  }
}

TEST(SwiGlu, EqualsItsFormulaAndItsGradientTheDifferences) {
  std::mt19937_64 rng(5);
  const int64_t n = 9001;
  const auto gate = RandomVector<double>(rng, n, 4), up = RandomVector<double>(rng, n),
             mix = RandomVector<double>(rng, n);
  std::vector<double> want(n), want_gate(n), want_up(n), y(n), grad_gate(n), grad_up(n);
  for (int64_t i = 0; i < n; ++i) {
    const double s = 1 / (1 + std::exp(-gate[i]));
    want[i] = gate[i] * s * up[i];
    want_up[i] = mix[i] * gate[i] * s;
    want_gate[i] = mix[i] * up[i] * s * (1 + gate[i] * (1 - s));
  }
  SwiGlu<double>(gate.data(), up.data(), n, y.data(), Threads(2));
  SwiGluBackward<double>(mix.data(), gate.data(), up.data(), n, grad_gate.data(), grad_up.data(), Threads(2));
  EXPECT_LT(RelativeError(y, want), 1e-14);
  EXPECT_LT(RelativeError(grad_gate, want_gate), 1e-14);
  EXPECT_LT(RelativeError(grad_up, want_up), 1e-14);

  const std::vector<float> far = {-200, 200, -88.5f, 88.5f, NAN}, one(5, 1);
  std::vector<float> out(5);
  SwiGlu<float>(far.data(), one.data(), 5, out.data(), Serial);
  EXPECT_EQ(out[1], 200);
  EXPECT_LT(std::abs(out[0]), 1e-30);
  EXPECT_TRUE(std::isnan(out[4]));
}

// --- bf16: the same formulas, with one rounding to 2^-9 where a result is stored

std::vector<double> WideOf(const std::vector<BFloat16>& values) {
  std::vector<double> wide;
  for (const BFloat16 v : values) wide.push_back(ToFloat(v));
  return wide;
}

TEST(HalfLinear, EqualsPlainSumsAndItsWideFormIsNotRounded) {
  std::mt19937_64 rng(6);
  for (const auto& [rows, in, out] : {std::tuple{1, 5, 3},
                                      {7, 64, 65},
                                      {13, 2100, 9},
                                      {2, 1057, 130},
                                      {17, 1057, 33},
                                      {32, 64, 16},
                                      {61, 600, 71},
                                      {300, 40, 270}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out));
    const auto x = RandomVector<BFloat16>(rng, rows * in), w = RandomVector<BFloat16>(rng, out * in),
               bias = RandomVector<BFloat16>(rng, out);
    std::vector<double> want;
    for (int r = 0; r < rows; ++r) {
      for (int o = 0; o < out; ++o) {
        double sum = ToFloat(bias[o]);
        for (int i = 0; i < in; ++i) sum += static_cast<double>(ToFloat(x[r * in + i])) * ToFloat(w[o * in + i]);
        want.push_back(sum);
      }
    }
    std::vector<BFloat16> y(rows * out + 8, BFloat16{77});
    std::vector<float> wide(rows * out);
    LinearArgs<BFloat16> args{x.data(), w.data(), bias.data(), y.data(), rows, in, out, 0};
    Linear<BFloat16>(args, Threads(2));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(y[rows * out + i].bits, 77) << "wrote past the end";
    y.resize(rows * out);
    args.wide = wide.data();
    Linear<BFloat16>(args, Serial);
    EXPECT_LT(RelativeError(wide, want), 1e-6);
    for (int i = 0; i < rows * out; ++i) ASSERT_EQ(y[i], ToBFloat16(wide[i])) << i;
  }
}

TEST(HalfLinear, ARowDoesNotDependOnTheOthersNorOnThreads) {
  std::mt19937_64 rng(7);
  const int64_t rows = 203, in = 2500, out = 70;
  const auto x = RandomVector<BFloat16>(rng, rows * in), w = RandomVector<BFloat16>(rng, out * in);
  const auto run = [&](int64_t first, int64_t count, const ParallelFor& parallel) {
    std::vector<BFloat16> y(count * out);
    Linear<BFloat16>({x.data() + first * in, w.data(), nullptr, y.data(), count, in, out, 0}, parallel);
    return y;
  };
  const auto all = run(0, rows, Serial);
  EXPECT_TRUE(all == run(0, rows, Threads(3)));
  for (const int64_t first : {0, 5, 6, 96, 202}) {
    for (const int64_t count : {1, 2, 5, 16, 17, 31, 33, 64}) {
      if (first + count > rows) continue;
      const auto some = run(first, count, Serial);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * out)) << first << " " << count;
    }
  }
}

TEST(HalfLayers, EqualFp64WithinTheirRounding) {
  std::mt19937_64 rng(8);
  const int64_t rows = 9, heads = 3, dim = 22, half = dim / 2, n = heads * dim;
  const auto x = RandomVector<BFloat16>(rng, rows * n), other = RandomVector<BFloat16>(rng, rows * n),
             w = RandomVector<BFloat16>(rng, n), turn = RandomVector<BFloat16>(rng, 20 * half);
  const std::vector<double> wx = WideOf(x), wo = WideOf(other), ww = WideOf(w), wt = WideOf(turn);
  std::vector<BFloat16> y(rows * n);
  std::vector<double> want(rows * n);
  std::vector<float> inverse(rows * heads);
  std::vector<double> want_inverse(rows * heads);

  RmsNorm<BFloat16>({.x = x.data(), .weight = w.data(), .eps = 1e-3f, .rows = rows, .n = n}, y.data(), inverse.data(),
                    Threads(2));
  RmsNorm<double>({.x = wx.data(), .weight = ww.data(), .eps = 1e-3, .rows = rows, .n = n}, want.data(),
                  want_inverse.data(), Serial);
  EXPECT_LT(RelativeError(y, want), 4e-3);  // two roundings
  for (int64_t r = 0; r < rows; ++r) EXPECT_NEAR(inverse[r], want_inverse[r], 1e-5);

  // With `plus`: the sum is rounded, and the norm is taken of the rounded sum.
  std::vector<BFloat16> sum(rows * n), normed(rows * n), again(rows * n);
  RmsNorm<BFloat16>(
      {.x = x.data(), .plus = other.data(), .sum = sum.data(), .weight = w.data(), .eps = 1e-3f, .rows = rows, .n = n},
      normed.data(), nullptr, Threads(2));
  for (int64_t i = 0; i < rows * n; ++i) {
    ASSERT_EQ(ToFloat(sum[i]), ToFloat(ToBFloat16(ToFloat(x[i]) + ToFloat(other[i])))) << i;
  }
  RmsNorm<BFloat16>({.x = sum.data(), .weight = w.data(), .eps = 1e-3f, .rows = rows, .n = n}, again.data(), nullptr,
                    Serial);
  EXPECT_EQ(normed, again);

  std::vector<int64_t> positions(rows);
  for (int64_t& p : positions) p = static_cast<int64_t>(rng() % 20);
  for (const bool norm : {true, false}) {
    NormRotate<BFloat16>(
        {x.data(), norm ? w.data() : nullptr, 1e-3f, turn.data(), turn.data(), positions.data(), rows, heads, dim, 0},
        y.data(), inverse.data(), Serial);
    NormRotate<double>(
        {wx.data(), norm ? ww.data() : nullptr, 1e-3, wt.data(), wt.data(), positions.data(), rows, heads, dim, 0},
        want.data(), want_inverse.data(), Serial);
    EXPECT_LT(RelativeError(y, want), norm ? 6e-3 : 3e-3);
  }

  SwiGlu<BFloat16>(x.data(), other.data(), rows * n, y.data(), Threads(2));
  SwiGlu<double>(wx.data(), wo.data(), rows * n, want.data(), Serial);
  EXPECT_LT(RelativeError(y, want), 3e-3);
}

std::vector<float> FloatsOf(const std::vector<BFloat16>& x) {
  std::vector<float> wide(x.size());
  std::transform(x.begin(), x.end(), wide.begin(), ToFloat);
  return wide;
}

std::vector<BFloat16> Rounded(const std::vector<float>& x) {
  std::vector<BFloat16> narrow(x.size());
  std::transform(x.begin(), x.end(), narrow.begin(), ToBFloat16);
  return narrow;
}

// More rows than are summed at once, and sizes that are no multiple of a vector.
TEST(HalfLayers, GradientsAreFp32sRoundedOnce) {
  std::mt19937_64 rng(9);
  const int64_t rows = 71, heads = 3, dim = 22, half = dim / 2, n = heads * dim;
  const auto x = RandomVector<BFloat16>(rng, rows * n), other = RandomVector<BFloat16>(rng, rows * n),
             grad = RandomVector<BFloat16>(rng, rows * n), w = RandomVector<BFloat16>(rng, n),
             turn = RandomVector<BFloat16>(rng, 20 * half);
  const std::vector<float> wx = FloatsOf(x), wo = FloatsOf(other), wg = FloatsOf(grad), ww = FloatsOf(w),
                           wt = FloatsOf(turn), inverse = RandomVector<float>(rng, rows * heads);
  std::vector<BFloat16> by_x(rows * n), by_w(n);
  std::vector<float> want_x(rows * n), want_w(n);

  for (const bool past : {false, true}) {
    RmsNormBackward<BFloat16>({.x = x.data(), .weight = w.data(), .rows = rows, .n = n}, grad.data(),
                              past ? other.data() : nullptr, inverse.data(), by_x.data(), by_w.data(), Threads(2));
    RmsNormBackward<float>({.x = wx.data(), .weight = ww.data(), .rows = rows, .n = n}, wg.data(),
                           past ? wo.data() : nullptr, inverse.data(), want_x.data(), want_w.data(), Serial);
    EXPECT_EQ(by_x, Rounded(want_x)) << past;
    EXPECT_EQ(by_w, Rounded(want_w)) << past;
  }

  std::vector<int64_t> positions(rows);
  for (int64_t& p : positions) p = static_cast<int64_t>(rng() % 20);
  by_w.resize(dim), want_w.resize(dim);
  for (const bool norm : {true, false}) {
    NormRotateBackward<BFloat16>(
        {x.data(), norm ? w.data() : nullptr, 1e-3f, turn.data(), turn.data(), positions.data(), rows, heads, dim, 0},
        grad.data(), inverse.data(), by_x.data(), norm ? by_w.data() : nullptr, Threads(2));
    NormRotateBackward<float>(
        {wx.data(), norm ? ww.data() : nullptr, 1e-3f, wt.data(), wt.data(), positions.data(), rows, heads, dim, 0},
        wg.data(), inverse.data(), want_x.data(), norm ? want_w.data() : nullptr, Serial);
    EXPECT_EQ(by_x, Rounded(want_x)) << norm;
    if (norm) {
      EXPECT_EQ(by_w, Rounded(want_w));
    }
  }

  std::vector<BFloat16> by_other(rows * n);
  std::vector<float> want_other(rows * n);
  SwiGluBackward<BFloat16>(grad.data(), x.data(), other.data(), rows * n, by_x.data(), by_other.data(), Threads(2));
  SwiGluBackward<float>(wg.data(), wx.data(), wo.data(), rows * n, want_x.data(), want_other.data(), Serial);
  EXPECT_EQ(by_x, Rounded(want_x));
  EXPECT_EQ(by_other, Rounded(want_other));
}

}  // namespace
}  // namespace ingot::kernels
