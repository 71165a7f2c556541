// The inner loops alone, under every instruction set that this machine runs. Other machines use the smaller sets.
#include "kernels/simd/inner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/attention_inner.h"
#include "kernels/attention/attention_reference.h"

namespace ingot::kernels {
namespace {

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
    if (inner::AttentionAmx<T>() != nullptr && inner::MayUseTiles()) sets.push_back(inner::AttentionAmx<T>());
  }
#endif
  return sets;
}

// Dot products of 7 rows with 9 columns, packed and unpacked, for every width and its remainders.
template <typename T>
void CheckScores(double tolerance) {
  using Acc = Accumulator<T>;
  std::mt19937_64 rng(10);
  for (const auto* set : AttentionSets<T>()) {
    const inner::KernelScope entered(*set);
    for (int64_t depth : {1, 2, 7, 16, 31, 32, 33, 64, 83, 128}) {
      SCOPED_TRACE(set->name + std::string(" depth ") + std::to_string(depth));
      const auto a = RandomVector<T>(rng, 7 * depth), b = RandomVector<T>(rng, 9 * depth);
      std::vector<const T*> rows, columns;
      for (int i = 0; i < 7; ++i) rows.push_back(a.data() + i * depth);
      for (int i = 0; i < 9; ++i) columns.push_back(b.data() + i * depth);
      const int64_t words = inner::PackedWords(*set, depth);
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

template <typename T>
std::vector<const T*> RowsOf(const std::vector<T>& values, int64_t width) {
  std::vector<const T*> rows;
  for (size_t at = 0; at < values.size(); at += width) rows.push_back(values.data() + at);
  return rows;
}

// c = c * factor + p v: packed, and with few rows and unpacked values. A row alone equals the row among others.
template <typename T>
void CheckOutput(double tolerance) {
  using Acc = Accumulator<T>;
  std::mt19937_64 rng(11);
  for (const auto* set : AttentionSets<T>()) {
    const inner::KernelScope entered(*set);
    for (int64_t depth : {1, 16, 31, 83, 128}) {
      for (int64_t keys : {1, 2, 31, 32, 33, 50, 64}) {
        SCOPED_TRACE(set->name + std::string(" depth ") + std::to_string(depth) + " keys " + std::to_string(keys));
        const int64_t rows = 53, width = (depth + 15) / 16 * 16;
        std::vector<T> p = RandomVector<T>(rng, rows * 64);
        for (int64_t i = 0; i < rows * 64; ++i) p[i] = i % 64 < keys ? p[i] : T{};
        const auto v = RandomVector<T>(rng, keys * depth);
        const auto factor = RandomVector<Acc>(rng, rows), before = RandomVector<Acc>(rng, rows * width);
        std::vector<Acc> a(rows * 64, 7), b(inner::PackedWords(*set, 64) * width, NAN);
        const auto p_rows = RowsOf(p, 64), v_rows = RowsOf(v, depth);
        for (int64_t r = 0; r < rows; ++r) set->pack_rows(a.data() + r * 64, p_rows.data() + r, 1, 64);
        set->pack_pairs(b.data(), width, v_rows.data(), keys, depth);
        const auto product = [&](int64_t first, int64_t count) {
          std::vector<Acc> c(before.begin() + first * width, before.begin() + (first + count) * width);
          c.resize(c.size() + 16 * width, 77);
          set->gemm({c.data(), width, factor.data() + first, true, count, width, (keys + set->pack - 1) / set->pack,
                     a.data() + first * 64, 64, 1, b.data(), width});
          for (int64_t i = count * width; i < static_cast<int64_t>(c.size()); ++i) EXPECT_EQ(c[i], 77) << i;
          c.resize(count * width);
          return c;
        };
        const std::vector<Acc> all = product(0, rows);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t d = 0; d < depth; ++d) {
            double want = static_cast<double>(before[r * width + d]) * factor[r];
            for (int64_t j = 0; j < keys; ++j) want += Wide(p[r * 64 + j]) * Wide(v[j * depth + d]);
            ASSERT_NEAR(all[r * width + d], want, tolerance * (10 + 2 * keys));
          }
        }
        for (int64_t count : {1, 2, 7, 8, 16, 17, 31, 32, 49}) {
          const int64_t first = (rows - count) / 3;
          const auto some = product(first, count);
          EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * width)) << count;
          if (count > inner::kFew) continue;
          std::vector<Acc> few(before.begin() + first * width, before.begin() + (first + count) * width);
          set->few_output({count, depth, v_rows.data(), keys, nullptr, 0}, few.data(), width, factor.data() + first,
                          a.data() + first * 64);
          for (int64_t r = 0; r < count; ++r) {
            EXPECT_TRUE(std::equal(few.begin() + r * width, few.begin() + r * width + depth, some.begin() + r * width))
                << count;
          }
        }
      }
    }
  }
}
TEST(InnerKernels, OutputIsTheSumOverKeysHoweverManyRows) {
  CheckOutput<double>(2.3e-16);
  CheckOutput<float>(1.2e-7);
  CheckOutput<BFloat16>(1.2e-7);
}

// Sums, products and numbers that are denormal, or would be: few rows and many rows give the same bits for them too.
TEST(InnerKernels, FewRowsTreatDenormalsLikeManyRows) {
  std::mt19937_64 rng(13);
  for (const auto* set : AttentionSets<BFloat16>()) {
    SCOPED_TRACE(set->name);
    const inner::KernelScope entered(*set);
    constexpr int64_t kDepth = 80, kCount = 64;
    for (const double scale : {1e-18, 3e-20, 1e-38, 1e-40}) {
      for (int64_t rows : {1, 2, 3, 8}) {
        const auto q = RandomVector<BFloat16>(rng, rows * kDepth, scale),
                   k = RandomVector<BFloat16>(rng, 64 * kDepth, scale);
        const auto q_rows = RowsOf(q, kDepth), k_rows = RowsOf(k, kDepth);
        const int64_t words = inner::PackedWords(*set, kDepth);
        std::vector<float> a(rows * words), b(words * 64), s(rows * 64), few(rows * 64);
        set->pack_rows(a.data(), q_rows.data(), rows, kDepth);
        set->pack_columns(b.data(), k_rows.data(), kCount, kDepth);
        set->gemm({s.data(), 64, nullptr, false, rows, 64, words, a.data(), words, 1, b.data(), 64});
        set->few_scores({rows, kDepth, k_rows.data(), kCount, nullptr, 0}, few.data(), a.data());
        EXPECT_EQ(s, few) << scale;

        const auto p = RandomVector<BFloat16>(rng, rows * 64, std::sqrt(scale));
        const auto p_rows = RowsOf(p, 64);
        const auto factor = RandomVector<float>(rng, rows, 1e-3);
        std::vector<float> c = RandomVector<float>(rng, rows * kDepth, 1e-36), few_c = c, p_words(rows * 64);
        std::vector<float> values(inner::PackedWords(*set, 64) * kDepth);
        for (int64_t r = 0; r < rows; ++r) set->pack_rows(p_words.data() + r * 64, p_rows.data() + r, 1, 64);
        set->pack_pairs(values.data(), kDepth, k_rows.data(), kCount, kDepth);
        set->gemm({c.data(), kDepth, factor.data(), true, rows, kDepth, 64 / set->pack, p_words.data(), 64, 1,
                   values.data(), kDepth});
        set->few_output({rows, kDepth, k_rows.data(), kCount, nullptr, 0}, few_c.data(), kDepth, factor.data(),
                        p_words.data());
        EXPECT_EQ(c, few_c) << scale;
      }
    }
  }
}

// The gradients of keys and values: c += a^T b over any number of query rows. Entries of a beyond the rows have no
// effect.
template <typename T>
void CheckSumOverRows(double tolerance) {
  using Acc = Accumulator<T>;
  std::mt19937_64 rng(12);
  for (const auto* set : AttentionSets<T>()) {
    const inner::KernelScope entered(*set);
    for (int64_t rows : {1, 2, 31, 33, 64, 70, 150}) {
      for (int64_t keys : {1, 17, 50, 64}) {
        SCOPED_TRACE(set->name + std::string(" rows ") + std::to_string(rows) + " keys " + std::to_string(keys));
        const int64_t width = 48, depth = (rows + set->pack - 1) / set->pack;
        const auto p = RandomVector<T>(rng, rows * 64), x = RandomVector<T>(rng, rows * width);
        const int64_t words = inner::PackedWords(*set, rows);
        std::vector<Acc> a(words * 64), b(words * width, NAN), c = RandomVector<Acc>(rng, keys * width);
        const auto p_rows = RowsOf(p, 64), x_rows = RowsOf(x, width);
        set->pack_pairs(a.data(), 64, p_rows.data(), rows, 64);
        std::fill(a.begin() + depth * 64, a.end(), NAN);
        set->pack_pairs(b.data(), width, x_rows.data(), rows, width);
        const std::vector<Acc> before = c;
        set->gemm({c.data(), width, nullptr, true, keys, width, depth, a.data(), 1, 64, b.data(), width});
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t d = 0; d < width; ++d) {
            double want = before[j * width + d];
            for (int64_t r = 0; r < rows; ++r) want += Wide(p[r * 64 + j]) * Wide(x[r * width + d]);
            ASSERT_NEAR(c[j * width + d], want, tolerance * (10 + 2 * rows));
          }
        }
      }
    }
  }
}
TEST(InnerKernels, GradientsOfKeysAreSumsOverQueryRows) {
  CheckSumOverRows<double>(2.3e-16);
  CheckSumOverRows<float>(1.2e-7);
  CheckSumOverRows<BFloat16>(1.2e-7);
}

// Base 2: words of 2^(x - max), rounded to bf16 for bf16.
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
    // A greater maximum scales down the earlier sums; a hidden tile changes nothing.
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
TEST(InnerKernels, SoftmaxOverTilesEqualsTheSoftmaxOfTheRow) {
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

// bf16 in every set: few and many rows, and sums that continue earlier ones.
TEST(InnerKernels, HalfDotProductsAreSumsHoweverManyRows) {
  std::mt19937_64 rng(14);
  std::vector<const inner::Kernels<BFloat16>*> sets = {inner::Portable<BFloat16>()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(inner::Avx2<BFloat16>());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    sets.push_back(inner::Avx512<BFloat16>());
  }
  if (__builtin_cpu_supports("avx512bf16")) sets.push_back(inner::Avx512Bf16<BFloat16>());
  if (inner::Amx<BFloat16>() != nullptr && inner::MayUseTiles()) sets.push_back(inner::Amx<BFloat16>());
#endif
  constexpr int64_t kRows = 53, kWidth = 96;
  for (const auto* set : sets) {
    for (const auto& [depth, cols] : {std::pair{7, 9}, {32, 70}, {83, 64}, {1100, 33}}) {
      SCOPED_TRACE(set->name + std::string(" depth ") + std::to_string(depth) + " columns " + std::to_string(cols));
      const auto a = RandomVector<BFloat16>(rng, kRows * depth), b = RandomVector<BFloat16>(rng, cols * depth);
      const auto columns = RowsOf(b, depth);
      const auto before = RandomVector<float>(rng, kRows * kWidth);
      for (const bool add : {false, true}) {
        std::vector<float> all = before;
        set->dot(a.data(), depth, kRows, columns.data(), cols, depth, all.data(), kWidth, add);
        for (int64_t r = 0; r < kRows; ++r) {
          for (int64_t j = 0; j < cols; ++j) {
            double want = add ? before[r * kWidth + j] : 0;
            for (int64_t d = 0; d < depth; ++d) want += Wide(a[r * depth + d]) * Wide(b[j * depth + d]);
            ASSERT_NEAR(all[r * kWidth + j], want, 1.2e-7 * (10 + 2 * depth));
          }
        }
        for (const int64_t count : {1, 4, 16, 17, 32, 40}) {
          const int64_t first = kRows - count;
          std::vector<float> some(before.begin() + first * kWidth, before.end());
          set->dot(a.data() + first * depth, depth, count, columns.data(), cols, depth, some.data(), kWidth, add);
          for (int64_t r = 0; r < count; ++r) {
            EXPECT_TRUE(std::equal(some.begin() + r * kWidth, some.begin() + r * kWidth + cols,
                                   all.begin() + (first + r) * kWidth))
                << count;
          }
        }
      }
    }
  }
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
