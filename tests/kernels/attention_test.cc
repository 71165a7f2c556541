#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "kernels/attention_reference.h"
#include "kernels/inner.h"

namespace ingot::kernels {
namespace testing {

ParallelFor Threads(int count) {
  return [count](int64_t items, const std::function<void(int64_t, int64_t)>& body) {
    std::atomic<int64_t> next{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) {
      threads.emplace_back([&] {
        for (int64_t i; (i = next++) < items;) body(i, i + 1);
      });
    }
    for (std::thread& t : threads) t.join();
  };
}

}  // namespace testing

namespace {

// ctest runs this program once per instruction set: a machine has only one of them by itself.
[[maybe_unused]] const bool kLimited = [] {
  const char* set = std::getenv("INGOT_TEST_INSTRUCTION_SET");
  if (set != nullptr) LimitInstructionSet(set);
  return set != nullptr;
}();

using testing::Dense;
using testing::DenseResult;
using testing::RandomForest;
using testing::RandomVector;
using testing::RelativeError;
using testing::Threads;

template <typename T>
struct Stream {
  AttentionShape shape;
  int64_t rows;
  std::vector<int32_t> visible_end;
  std::vector<T> q, k, v, grad_out;

  Stream(std::mt19937_64& rng, AttentionShape s, int64_t n, double branch, double root)
      : shape(s),
        rows(n),
        visible_end(RandomForest(rng, n, branch, root)),
        q(RandomVector<T>(rng, n * s.heads * s.head_dim)),
        k(RandomVector<T>(rng, n * s.kv_heads * s.head_dim)),
        v(RandomVector<T>(rng, n * s.kv_heads * s.head_dim)),
        grad_out(RandomVector<T>(rng, n * s.heads * s.head_dim)) {}
};

template <typename T>
struct Result {
  std::vector<T> out, lse, grad_q, grad_k, grad_v;
  bool operator==(const Result&) const = default;
};

template <typename T>
Result<T> Compute(const Stream<T>& s, const ParallelFor& parallel) {
  Result<T> r{std::vector<T>(s.q.size(), 7), std::vector<T>(s.rows * s.shape.heads, 7), std::vector<T>(s.q.size(), 7),
              std::vector<T>(s.k.size(), 7), std::vector<T>(s.v.size(), 7)};
  const int32_t* visible_end = s.visible_end.empty() ? nullptr : s.visible_end.data();
  AttentionSequence sequence;
  sequence.q_count = sequence.key_count = s.rows;
  sequence.visible_end = visible_end;
  AttentionForwardArgs<T> forward;
  forward.q = s.q.data();
  forward.k = s.k.data();
  forward.v = s.v.data();
  forward.out = r.out.data();
  forward.lse = r.lse.data();
  AttentionForward<T>(s.shape, {&sequence, 1}, forward, parallel);
  AttentionBackwardArgs<T> backward{s.rows,          visible_end,     s.q.data(),     s.k.data(),
                                    s.v.data(),      r.out.data(),    r.lse.data(),   s.grad_out.data(),
                                    r.grad_q.data(), r.grad_k.data(), r.grad_v.data()};
  AttentionBackward<T>(s.shape, backward, parallel);
  return r;
}

template <typename T>
void ExpectClose(const Stream<T>& s, const Result<T>& r, double tolerance) {
  const DenseResult want = Dense(s.shape, s.rows, s.visible_end, s.q, s.k, s.v, s.grad_out);
  EXPECT_LT(RelativeError(r.out, want.out), tolerance);
  EXPECT_LT(RelativeError(r.lse, want.lse), tolerance);
  EXPECT_LT(RelativeError(r.grad_q, want.grad_q), tolerance);
  EXPECT_LT(RelativeError(r.grad_k, want.grad_k), tolerance);
  EXPECT_LT(RelativeError(r.grad_v, want.grad_v), tolerance);
}

template <typename T>
void CompareWithDense(double tolerance) {
  std::mt19937_64 rng(1);
  const AttentionShape shapes[] = {
      {2, 2, 32, 0.2}, {4, 2, 64, 0.125}, {6, 1, 8, 0.3}, {3, 3, 5, 0.4}, {8, 2, 128, 0.09}};
  for (const AttentionShape& shape : shapes) {
    for (int64_t rows : {1, 2, 63, 64, 65, 129, 193}) {
      SCOPED_TRACE(std::to_string(shape.head_dim) + " wide, rows " + std::to_string(rows));
      const double branch = std::uniform_real_distribution<double>(0, 0.3)(rng);
      const Stream<T> s(rng, shape, rows, branch, 0.02);
      ExpectClose(s, Compute(s, Serial), tolerance);
    }
  }
}

TEST(TreeAttention, EqualsADenseMaskInFp64OnRandomForests) { CompareWithDense<double>(1e-13); }
// A row of few keys has a small gradient, a difference of larger terms: 1e-5 of it, as law 2 allows.
TEST(TreeAttention, EqualsADenseMaskInFp32OnRandomForests) { CompareWithDense<float>(1e-5); }

TEST(TreeAttention, IsPlainCausalWithoutVisibleEnd) {
  std::mt19937_64 rng(2);
  Stream<double> s(rng, {2, 1, 16, 0.25}, 200, 0, 0);
  const Result<double> with = Compute(s, Serial);
  s.visible_end.clear();
  ExpectClose(s, Compute(s, Serial), 1e-13);
  EXPECT_TRUE(with == Compute(s, Serial));
}

TEST(TreeAttention, LongStreamsWithSeveralGradientSplitsEqualTheDenseMask) {
  std::mt19937_64 rng(3);
  const Stream<double> s(rng, {2, 1, 8, 0.35}, 2100, 0.01, 0.002);
  ExpectClose(s, Compute(s, Threads(3)), 1e-13);
}

TEST(TreeAttention, DoesNotDependOnThreads) {
  std::mt19937_64 rng(4);
  const Stream<float> s(rng, {4, 2, 32, 0.2}, 2100, 0.02, 0.002);
  const Result<float> serial = Compute(s, Serial);
  EXPECT_TRUE(serial == Compute(s, Threads(2)));
  EXPECT_TRUE(serial == Compute(s, Threads(5)));
}

// A batch of decodes, prefills of chunks and whole sequences over pages, each equal to the whole sequence alone.
TEST(TreeAttention, RaggedPagedBatchEqualsEachSequenceAloneBitForBit) {
  std::mt19937_64 rng(5);
  const AttentionShape shape{4, 2, 32, 0.18};
  const int64_t q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  for (int64_t page_size : {1, 16, 24, 64, 128}) {
    SCOPED_TRACE(page_size);
    constexpr int kPages = 1800;
    const int64_t pages = std::min<int64_t>(kPages, kPages * 16 / page_size);
    std::vector<int32_t> free(pages);
    for (int64_t p = 0; p < pages; ++p) free[p] = static_cast<int32_t>(p);
    std::shuffle(free.begin(), free.end(), rng);
    // What no sequence owns is not-a-number: reading it would show.
    std::vector<float> k_pages(pages * page_size * kv_width, NAN), v_pages = k_pages;

    struct Part {
      int64_t length, offset;
      bool tree;
    };
    const Part parts[] = {{300, 299, false}, {130, 0, true},    {65, 64, false}, {64, 63, true}, {200, 120, true},
                          {500, 499, false}, {129, 127, false}, {3, 1, true},    {1, 0, false}};
    std::vector<std::vector<int32_t>> tables;
    std::vector<AttentionSequence> sequences;
    std::vector<float> q;
    std::vector<float> expected, expected_lse;
    std::vector<Stream<float>> streams;
    for (const Part& part : parts) streams.emplace_back(rng, shape, part.length, part.tree ? 0.1 : 0, 0);
    int64_t row = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      const Stream<float>& s = streams[i];
      const Result<float> alone = Compute(s, Serial);
      std::vector<int32_t>& table = tables.emplace_back();
      for (int64_t key = 0; key < s.rows; ++key) {
        if (key % page_size == 0) {
          table.push_back(free.back());
          free.pop_back();
        }
        const int64_t at = (table.back() * page_size + key % page_size) * kv_width;
        std::copy_n(s.k.data() + key * kv_width, kv_width, k_pages.data() + at);
        std::copy_n(s.v.data() + key * kv_width, kv_width, v_pages.data() + at);
      }
      AttentionSequence sequence;
      sequence.q_begin = row;
      sequence.q_offset = parts[i].offset;
      sequence.q_count = s.rows - parts[i].offset;
      sequence.key_count = s.rows;
      sequence.visible_end = parts[i].tree ? s.visible_end.data() : nullptr;
      sequences.push_back(sequence);
      row += sequence.q_count;
      q.insert(q.end(), s.q.begin() + parts[i].offset * q_width, s.q.end());
      expected.insert(expected.end(), alone.out.begin() + parts[i].offset * q_width, alone.out.end());
      expected_lse.insert(expected_lse.end(), alone.lse.begin() + parts[i].offset * shape.heads, alone.lse.end());
    }
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].block_table = tables[i].data();

    std::vector<float> out(q.size(), NAN), lse(row * shape.heads, NAN);
    AttentionForwardArgs<float> args;
    args.q = q.data();
    args.k = k_pages.data();
    args.v = v_pages.data();
    args.out = out.data();
    args.lse = lse.data();
    args.page_size = page_size;
    AttentionForward<float>(shape, sequences, args, Threads(2));
    EXPECT_TRUE(out == expected);
    EXPECT_TRUE(lse == expected_lse);
    // The other order of the batch.
    std::fill(out.begin(), out.end(), NAN);
    std::reverse(sequences.begin(), sequences.end());
    AttentionForward<float>(shape, sequences, args, Serial);
    EXPECT_TRUE(out == expected);
  }
}

// The promise behind the tile-aligned layout: siblings that begin on a tile border see their path's tiles in the same
// order as in their own sequence.
TEST(TreeAttention, TileAlignedSiblingEqualsItsOwnSequenceBitForBit) {
  std::mt19937_64 rng(6);
  const AttentionShape shape{2, 1, 32, 0.2};
  Stream<float> tree(rng, shape, 4 * kKeyTile, 0, 0);
  // Prefix of one tile, first branch of two, second branch of one.
  for (int64_t j = kKeyTile; j < 3 * kKeyTile; ++j) tree.visible_end[j] = 3 * kKeyTile;
  Stream<float> alone = tree;
  alone.rows = 2 * kKeyTile;
  alone.visible_end.clear();
  const auto take = [](std::vector<float>& values, int64_t width) {
    std::copy_n(values.begin() + 3 * kKeyTile * width, kKeyTile * width, values.begin() + kKeyTile * width);
    values.resize(2 * kKeyTile * width);
  };
  take(alone.q, 64);
  take(alone.k, 32);
  take(alone.v, 32);
  take(alone.grad_out, 64);
  const Result<float> in_tree = Compute(tree, Serial), own = Compute(alone, Serial);
  EXPECT_TRUE(std::equal(own.out.begin() + kKeyTile * 64, own.out.end(), in_tree.out.begin() + 3 * kKeyTile * 64));
}

TEST(TreeAttention, QueryThatSeesNothingGetsZerosAndNoGradient) {
  std::mt19937_64 rng(7);
  Stream<float> s(rng, {2, 2, 16, 0.25}, 70, 0, 0);
  for (int32_t& end : s.visible_end) end = 5;  // rows from 5 on see nothing
  const Result<float> r = Compute(s, Serial);
  EXPECT_TRUE(std::all_of(r.out.begin() + 5 * 32, r.out.end(), [](float x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(r.grad_q.begin() + 5 * 32, r.grad_q.end(), [](float x) { return x == 0; }));
  EXPECT_EQ(r.lse[5 * 2], -INFINITY);
  ExpectClose(s, r, 2e-6);
}

TEST(TreeAttention, NotANumberInAQueryComesOut) {
  std::mt19937_64 rng(8);
  Stream<float> s(rng, {2, 2, 16, 0.25}, 90, 0.1, 0);
  s.q[40 * 32] = NAN;
  const Result<float> r = Compute(s, Serial);
  EXPECT_TRUE(std::isnan(r.out[40 * 32]));
  EXPECT_FALSE(std::isnan(r.out[41 * 32]));
}

TEST(TreeAttention, LargeScoresDoNotOverflow) {
  std::mt19937_64 rng(9);
  Stream<float> s(rng, {2, 1, 64, 60.0}, 130, 0.05, 0);
  const Result<float> r = Compute(s, Serial);
  for (float x : r.out) ASSERT_TRUE(std::isfinite(x));
  const DenseResult want = Dense(s.shape, s.rows, s.visible_end, s.q, s.k, s.v, s.grad_out);
  EXPECT_LT(RelativeError(r.out, want.out), 1e-3);  // scores of thousands carry errors of 1e-3
}

// Every instruction set this machine runs: the smaller ones are what other machines get.
TEST(InnerKernels, EveryInstructionSetComputesTheSame) {
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
      std::vector<T> s(7 * 64, 0), c(7 * n, 1);
      set->dot(a.data(), n, 7, rows.data(), 9, n, s.data(), 64, false);
      for (int r = 0; r < 7; ++r) {
        for (int j = 0; j < 9; ++j) {
          double want = 0;
          for (int64_t d = 0; d < n; ++d) want += static_cast<double>(a[r * n + d]) * b[j * n + d];
          EXPECT_NEAR(s[r * 64 + j], want, tolerance * 50);
        }
      }
      set->accumulate(c.data(), n, nullptr, 7, n, s.data(), 64, 1, rows.data(), 9);
      double want = 1;
      for (int j = 0; j < 9; ++j) want += static_cast<double>(s[6 * 64 + j]) * b[j * n + 82];
      EXPECT_NEAR(c[6 * n + 82], want, tolerance * 500);

      std::vector<T> wide(64, -INFINITY), max = {-INFINITY}, sum = {0}, rescale = {0};
      for (int j = 0; j < 50; ++j) wide[j] = static_cast<T>(j * -1.7);
      set->softmax(wide.data(), 1, max.data(), sum.data(), rescale.data());
      for (int j = 0; j < 50; ++j) EXPECT_NEAR(wide[j] / std::exp(static_cast<T>(j * -1.7)), 1, tolerance * 4);
      EXPECT_EQ(wide[60], 0);
      EXPECT_EQ(max[0], 0);
    }
  };
  check(float{}, 1.2e-7);
  check(double{}, 2.3e-16);
}

}  // namespace
}  // namespace ingot::kernels
