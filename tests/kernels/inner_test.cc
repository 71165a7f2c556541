// The inner loops by themselves, under every instruction set this machine runs: the smaller ones are what other
// machines get.
#include "kernels/inner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention_inner.h"
#include "kernels/attention_reference.h"

namespace ingot::kernels {
namespace {

using testing::Narrow;
using testing::RandomVector;
using testing::Wide;

template <typename T>
std::vector<const inner::AttentionKernels<T>*> AttentionSets() {
  std::vector<const inner::AttentionKernels<T>*> sets = {inner::AttentionPortable<T>()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(inner::AttentionAvx2<T>());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    sets.push_back(inner::AttentionAvx512<T>());
  }
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (__builtin_cpu_supports("avx512bf16")) sets.push_back(inner::AttentionAvx512Bf16<T>());
  }
#endif
  return sets;
}

// Dot products of 7 rows with 9 columns, packed and as they lie, for every width and its remainders.
template <typename T>
void CheckScores(double tolerance) {
  using Acc = Accumulator<T>;
  std::mt19937_64 rng(10);
  for (const auto* set : AttentionSets<T>()) {
    for (int64_t depth : {1, 2, 7, 16, 31, 32, 33, 64, 83, 128}) {
      SCOPED_TRACE(set->name + std::string(" depth ") + std::to_string(depth));
      const auto a = RandomVector<T>(rng, 7 * depth), b = RandomVector<T>(rng, 9 * depth);
      std::vector<const T*> rows, columns;
      for (int i = 0; i < 7; ++i) rows.push_back(a.data() + i * depth);
      for (int i = 0; i < 9; ++i) columns.push_back(b.data() + i * depth);
      const int64_t words = (depth + set->pack - 1) / set->pack;
      std::vector<Acc> q(7 * words), k(words * 64), s(7 * 64, 5), few(7 * 64, 5);
      set->pack_rows(q.data(), rows.data(), 7, depth);
      set->pack_columns(k.data(), columns.data(), 9, depth);
      set->gemm({s.data(), 64, nullptr, false, 7, 16, words, q.data(), words, 1, k.data(), 64});
      set->few_scores({7, depth, columns.data(), 9, nullptr, 0}, few.data(), q.data());
      for (int r = 0; r < 7; ++r) {
        for (int j = 0; j < 9; ++j) {
          double want = 0;
          for (int64_t d = 0; d < depth; ++d) want += Wide(a[r * depth + d]) * Wide(b[j * depth + d]);
          EXPECT_NEAR(s[r * 64 + j], want, tolerance * (10 + 2 * depth));
          EXPECT_EQ(s[r * 64 + j], few[r * 64 + j]);
        }
      }
    }
  }
}
TEST(InnerKernels, ScoresAreDotProductsHoweverTheTileLies) {
  CheckScores<double>(2.3e-16);
  CheckScores<float>(1.2e-7);
  CheckScores<BFloat16>(1.2e-7);  // products of bf16 are exact in fp32
}

// Base 2: words of 2^(x - max), which for bf16 are rounded to it.
template <typename T>
void CheckSoftmax(double tolerance) {
  using Acc = Accumulator<T>;
  for (const auto* set : AttentionSets<T>()) {
    SCOPED_TRACE(set->name);
    std::vector<Acc> s(64, -INFINITY), max = {-INFINITY}, lanes(inner::kLanes, 0), rescale = {0};
    double want = 0;
    for (int j = 0; j < 50; ++j) s[j] = static_cast<Acc>(j * -0.7);
    for (int j = 0; j < 50; ++j) want += std::exp2(static_cast<double>(s[j]) * 2);
    set->softmax(s.data(), 1, 2, max.data(), lanes.data(), rescale.data());
    double sum = 0;
    for (Acc x : lanes) sum += static_cast<double>(x);
    EXPECT_NEAR(sum / want, 1, tolerance * 4);
    EXPECT_EQ(max[0], 0);
    if (set->pack == 1) {
      for (int j = 0; j < 50; ++j) EXPECT_NEAR(s[j] / std::exp2(static_cast<Acc>(j * -0.7) * 2.0), 1, tolerance * 4);
      EXPECT_EQ(s[60], 0);
    }
    // A greater maximum later scales down what came before; a hidden tile changes nothing.
    std::fill(s.begin(), s.end(), Acc(-INFINITY));
    s[3] = 5;
    set->softmax(s.data(), 1, 2, max.data(), lanes.data(), rescale.data());
    EXPECT_EQ(max[0], 10);
    EXPECT_NEAR(rescale[0] * 1024, 1, tolerance * 4);
    const std::vector<Acc> before = lanes;
    std::fill(s.begin(), s.end(), Acc(-INFINITY));
    set->softmax(s.data(), 1, 2, max.data(), lanes.data(), rescale.data());
    EXPECT_EQ(lanes, before);
    EXPECT_EQ(rescale[0], 1);
  }
}
TEST(InnerKernels, SoftmaxOverTilesIsThatOverTheWhole) {
  CheckSoftmax<double>(2.3e-16);
  CheckSoftmax<float>(1.2e-7);
  CheckSoftmax<BFloat16>(1.2e-7);
}

TEST(InnerKernels, Bf16IsRoundedToTheNearestEvenEverywhere) {
  const std::vector<float> from = {1.0f, 1.00390625f, 1.01171875f, -3.14159f, 65504.0f, 1e38f, INFINITY, NAN, 0.1f};
  for (const auto* set : AttentionSets<BFloat16>()) {
    SCOPED_TRACE(set->name);
    std::vector<BFloat16> to(from.size());
    set->store(to.data(), from.data(), 1, static_cast<int64_t>(from.size()));
    for (size_t i = 0; i < from.size(); ++i) {
      if (std::isnan(from[i])) {
        EXPECT_TRUE(std::isnan(ToFloat(to[i])));
      } else {
        EXPECT_EQ(to[i].bits, ToBFloat16(from[i]).bits) << from[i];
      }
    }
  }
  EXPECT_EQ(ToBFloat16(1.00390625f).bits, 0x3f80);  // half way, to the even one below
  EXPECT_EQ(ToBFloat16(1.01171875f).bits, 0x3f82);  // half way, to the even one above
}

TEST(InnerKernels, LinearDotProductsAreTheSameEverywhere) {
  std::mt19937_64 rng(10);
  const auto check = [&](auto zero, double tolerance) {
    using T = decltype(zero);
    std::vector<const inner::Kernels<T>*> sets = {inner::Portable<T>()};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(inner::Avx2<T>());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) sets.push_back(inner::Avx512<T>());
#endif
    const int64_t n = 83;
    const auto a = RandomVector<T>(rng, 7 * n), b = RandomVector<T>(rng, 9 * n);
    std::vector<const T*> rows;
    for (int i = 0; i < 9; ++i) rows.push_back(b.data() + i * n);
    for (const auto* set : sets) {
      SCOPED_TRACE(set->name);
      std::vector<T> s(7 * 64, 0);
      set->dot(a.data(), n, 7, rows.data(), 9, n, s.data(), 64, false);
      for (int r = 0; r < 7; ++r) {
        for (int j = 0; j < 9; ++j) {
          double want = 0;
          for (int64_t d = 0; d < n; ++d) want += static_cast<double>(a[r * n + d]) * b[j * n + d];
          EXPECT_NEAR(s[r * 64 + j], want, tolerance * 50);
        }
      }
    }
  };
  check(float{}, 1.2e-7);
  check(double{}, 2.3e-16);
}

}  // namespace
}  // namespace ingot::kernels
