#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

#include "kernels/attention/attention_stream.h"

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

constexpr int kSkipped = 77;

// ctest runs this program with the machine's own instruction set, and once for each lower one. A set that the machine lacks
// is skipped; so is its own one, which is run without the variable.
[[maybe_unused]] const bool kLimited = [] {
  const char* set = std::getenv("INGOT_TEST_INSTRUCTION_SET");
  if (set == nullptr) return false;
  const std::string own = InstructionSet();
  if (own == set || std::string(LimitInstructionSet(set)) != set) {
    std::printf("SKIPPED kernels_test_%s: the machine's own instruction set is %s\n", set, own.c_str());
    std::fflush(stdout);
    std::_Exit(kSkipped);
  }
  return true;
}();

// Every set below this machine's own, and no other.
TEST(InstructionSet, IsTheRequestedOneIfTheMachineHasIt) {
  const std::vector<std::string> sets = {"portable", "avx2", "avx512", "avx512bf16", "amx"};
  const auto rank = [&](const std::string& name) { return std::find(sets.begin(), sets.end(), name) - sets.begin(); };
  const std::string now = InstructionSet();
  ASSERT_LT(rank(now), 5);
  const char* set = std::getenv("INGOT_TEST_INSTRUCTION_SET");
  EXPECT_LE(rank(now), rank(set == nullptr ? "amx" : set));
  EXPECT_EQ(LimitInstructionSet("amx"), now);  // never up
  EXPECT_EQ(LimitInstructionSet("avx1024"), now);
}

using testing::Compute;
using testing::ExpectClose;
using testing::GatheredPaths;
using testing::kTolerance;
using testing::RandomVector;
using testing::ReferenceResult;
using testing::RelativeError;
using testing::Result;
using testing::Stream;
using testing::Threads;

template <typename T>
class TreeAttentionOf : public ::testing::Test {};
using Numbers = ::testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(TreeAttentionOf, Numbers);

TYPED_TEST(TreeAttentionOf, EqualsGatheredPathsOnRandomForests) {
  using T = TypeParam;
  std::mt19937_64 rng(1);
  const AttentionShape shapes[] = {{2, 2, 32, 0.2}, {4, 2, 64, 0.125}, {6, 1, 8, 0.3},
                                   {3, 3, 5, 0.4},  {8, 2, 128, 0.09}, {70, 1, 24, -0.2}};
  int round = 0;
  for (const AttentionShape& shape : shapes) {
    for (int64_t rows : {1, 2, 63, 64, 65, 129, 193}) {
      const double branch = std::uniform_real_distribution<double>(0, 0.3)(rng);
      Stream<T> s(rng, shape, rows, branch, 0.02);
      s.shape.window = round % 3 == 0 ? 0 : 1 + static_cast<int64_t>(rng() % 90);
      s.shape.soft_cap = round % 5 < 3 ? 0 : 0.8;  // scores are of order 1
      if (round++ % 2 == 0) s.sinks = RandomVector<Accumulator<T>>(rng, shape.heads, 2.0);
      SCOPED_TRACE(std::to_string(shape.head_dim) + " wide, rows " + std::to_string(rows) + ", window " +
                   std::to_string(s.shape.window) + (s.sinks.empty() ? "" : ", sinks") +
                   (s.shape.soft_cap > 0 ? ", capped" : ""));
      ExpectClose(s, Compute(s, Serial));
    }
  }
}

// Gradient stripes with several key tiles and query blocks each.
TYPED_TEST(TreeAttentionOf, EqualsGatheredPathsOnLongStreams) {
  std::mt19937_64 rng(3);
  Stream<TypeParam> s(rng, {2, 1, 8, 0.35}, 1500, 0.01, 0.002);
  ExpectClose(s, Compute(s, Threads(3)));
  s.shape.window = 300;
  s.sinks = RandomVector<Accumulator<TypeParam>>(rng, 2);
  ExpectClose(s, Compute(s, Threads(3)));
  s.shape.soft_cap = 0.8;
  ExpectClose(s, Compute(s, Threads(3)));
}

TYPED_TEST(TreeAttentionOf, DoesNotDependOnThreads) {
  std::mt19937_64 rng(4);
  Stream<TypeParam> s(rng, {4, 2, 32, 0.2}, 2100, 0.02, 0.002);
  s.shape.window = 500;
  s.sinks = RandomVector<Accumulator<TypeParam>>(rng, 4);
  const Result<TypeParam> serial = Compute(s, Serial);
  EXPECT_TRUE(serial == Compute(s, Threads(2)));
  EXPECT_TRUE(serial == Compute(s, Threads(5)));
}

TYPED_TEST(TreeAttentionOf, AScaleOfZeroGivesTheMeanOfVisibleValues) {
  std::mt19937_64 rng(13);
  const Stream<TypeParam> s(rng, {2, 1, 16, 0.0}, 70, 0.1, 0);
  ExpectClose(s, Compute(s, Serial));
}

// A window counts packed indices on a stream without positions, and depths on a stream with them.
TYPED_TEST(TreeAttentionOf, AWindowWithoutPositionsCountsPackedIndices) {
  std::mt19937_64 rng(11);
  Stream<TypeParam> s(rng, {2, 1, 16, 0.25}, 400, 0, 0);
  s.shape.window = 100;
  const Result<TypeParam> with = Compute(s, Serial);
  s.positions.clear();
  EXPECT_TRUE(with == Compute(s, Serial));
  s.visible_end.clear();
  EXPECT_TRUE(with == Compute(s, Serial));
  ExpectClose(s, with);
}

// A window wider than any index is no window.
TYPED_TEST(TreeAttentionOf, AWindowMayBeWiderThanAnyIndex) {
  std::mt19937_64 rng(18);
  Stream<TypeParam> s(rng, {2, 1, 16, 0.25}, 200, 0.05, 0);
  const Result<TypeParam> all = Compute(s, Serial);
  for (const int64_t window : {int64_t{1} << 31, int64_t{1} << 32, std::numeric_limits<int64_t>::max() / 2}) {
    s.shape.window = window;
    EXPECT_TRUE(all == Compute(s, Serial)) << window;
  }
}

// Rows that see no key, not even their own, among rows that see some: few rows, full blocks and part blocks. Scores are
// so low that 2^-score overflows.
TYPED_TEST(TreeAttentionOf, RowsThatSeeNothingAmongOthers) {
  using T = TypeParam;
  std::mt19937_64 rng(19);
  for (const int64_t rows : {5, 100, 530}) {
    for (const bool low : {false, true}) {
      SCOPED_TRACE(std::to_string(rows) + (low ? " low" : ""));
      Stream<T> s(rng, {6, 2, 48, 0.25}, rows, 0, 0);
      const int64_t blind = rows > 80 ? 70 : 3;
      for (int64_t i = 0; i < rows; ++i) {
        s.visible_end[i] = static_cast<int32_t>(i < blind || i % 7 == 3 ? i : rows);
      }
      for (size_t i = 0; low && i < s.q.size(); i += 48) s.q[i] = testing::Narrow<T>(-40);
      for (size_t i = 0; low && i < s.k.size(); i += 48) s.k[i] = testing::Narrow<T>(30);
      const Result<T> r = Compute(s, Serial);
      for (int64_t i = 0; i < blind * 6 * 48; ++i) {
        ASSERT_EQ(testing::Wide(r.out[i]), 0) << i;
        ASSERT_EQ(testing::Wide(r.grad_q[i]), 0) << i;
      }
      for (const auto* values : {&r.out, &r.grad_q, &r.grad_k, &r.grad_v}) {
        for (const T& x : *values) ASSERT_TRUE(std::isfinite(testing::Wide(x)));
      }
      if (!low) ExpectClose(s, r);
    }
  }
}

// The maximum of the scores rises by many powers of two from one key tile to the next, so that the sums are rescaled
// again and again. As few rows, as part of a block and as whole blocks.
TYPED_TEST(TreeAttentionOf, RescalesWhereMaximaRiseFromTileToTile) {
  using T = TypeParam;
  std::mt19937_64 rng(17);
  for (const double scale : {0.25, -0.25}) {
    Stream<T> s(rng, {2, 1, 40, scale}, 330, 0.05, 0);
    const int64_t width = s.shape.head_dim;
    for (int64_t j = 0; j < s.rows; ++j) {
      for (int64_t d = 0; d < width; ++d) {
        T& k = s.k[j * width + d];
        k = testing::Narrow<T>(testing::Wide(k) * (1 + 4 * static_cast<double>(j / kKeyTile)));
      }
    }
    s.sinks = {static_cast<Accumulator<T>>(0.5), static_cast<Accumulator<T>>(40)};
    const Result<T> whole = Compute(s, Serial);
    const testing::ReferenceResult want =
        testing::GatheredPaths<T>({s.shape, s.visible_end, 0, s.sinks, s.q, s.k, s.v, s.grad_out});
    EXPECT_LT(testing::RelativeError(whole.out, want.out), kTolerance<T>.out);
    EXPECT_LT(testing::RelativeError(whole.lse, want.lse), kTolerance<T>.lse);
    for (const int64_t rows : {1, 3, 5, 17, 40}) {
      SCOPED_TRACE(rows);
      std::vector<AttentionSequence> parts;
      for (int64_t first = 0; first < s.rows; first += rows) {
        AttentionSequence& part = parts.emplace_back();
        part.q_begin = part.q_offset = first;
        part.q_count = std::min(rows, s.rows - first);
        part.key_count = s.rows;
        part.visible_end = s.Ends();
      }
      Result<T> r = whole;
      std::fill(r.out.begin(), r.out.end(), testing::Narrow<T>(7));
      AttentionForwardArgs<T> args;
      args.q = s.q.data();
      args.k = s.k.data();
      args.v = s.v.data();
      args.sinks = s.Sinks();
      args.out = r.out.data();
      args.lse = r.lse.data();
      AttentionForward<T>(s.shape, parts, args, Serial);
      EXPECT_TRUE(r == whole);
    }
  }
}

TEST(TreeAttention, IsPlainCausalWithoutVisibleEnd) {
  std::mt19937_64 rng(2);
  Stream<double> s(rng, {2, 1, 16, 0.25}, 200, 0, 0);
  const Result<double> with = Compute(s, Serial);
  s.visible_end.clear();
  ExpectClose(s, Compute(s, Serial));
  EXPECT_TRUE(with == Compute(s, Serial));
}

// A batch over pages of decodes, prefills of chunks and whole sequences. Each equals the whole sequence alone.
TYPED_TEST(TreeAttentionOf, RaggedPagedBatchEqualsEachSequenceAloneBitForBit) {
  using T = TypeParam;
  const T nan = testing::Narrow<T>(NAN);
  std::mt19937_64 rng(5);
  AttentionShape shape{4, 2, 32, 0.18};
  const std::vector<Accumulator<T>> sinks = RandomVector<Accumulator<T>>(rng, shape.heads);
  const int64_t q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
  for (int64_t page_size : {1, 16, 24, 64, 128}) {
    SCOPED_TRACE(page_size);
    shape.window = page_size == 24 ? 70 : 0;
    const bool sink = page_size != 16;
    constexpr int kPages = 1800;
    const int64_t pages = std::min<int64_t>(kPages, kPages * 16 / page_size);
    std::vector<int32_t> free(pages);
    for (int64_t p = 0; p < pages; ++p) free[p] = static_cast<int32_t>(p);
    std::shuffle(free.begin(), free.end(), rng);
    // Rows that no sequence owns are not-a-number, so that reading one would show.
    std::vector<T> k_pages(pages * page_size * kv_width, nan), v_pages = k_pages;

    struct Part {
      int64_t length, offset;
      bool tree;
    };
    const Part parts[] = {{300, 299, false}, {130, 0, true},    {65, 64, false}, {64, 63, true}, {200, 120, true},
                          {500, 499, false}, {129, 127, false}, {3, 1, true},    {1, 0, false}};
    std::vector<std::vector<int32_t>> tables;
    std::vector<AttentionSequence> sequences;
    std::vector<T> q, expected;
    std::vector<Accumulator<T>> expected_lse;
    std::vector<Stream<T>> streams;
    for (const Part& part : parts) {
      streams.emplace_back(rng, shape, part.length, part.tree ? 0.1 : 0, 0);
      if (sink) streams.back().sinks = sinks;
    }
    int64_t row = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      const Stream<T>& s = streams[i];
      const Result<T> alone = Compute(s, Serial);
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
      sequence.positions = parts[i].tree ? s.positions.data() : nullptr;
      sequences.push_back(sequence);
      row += sequence.q_count;
      q.insert(q.end(), s.q.begin() + parts[i].offset * q_width, s.q.end());
      expected.insert(expected.end(), alone.out.begin() + parts[i].offset * q_width, alone.out.end());
      expected_lse.insert(expected_lse.end(), alone.lse.begin() + parts[i].offset * shape.heads, alone.lse.end());
    }
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].block_table = tables[i].data();

    std::vector<T> out(q.size(), nan);
    std::vector<Accumulator<T>> lse(row * shape.heads, NAN);
    AttentionForwardArgs<T> args;
    args.sinks = sink ? sinks.data() : nullptr;
    args.q = q.data();
    args.k = k_pages.data();
    args.v = v_pages.data();
    args.out = out.data();
    args.lse = lse.data();
    args.page_size = page_size;
    AttentionForward<T>(shape, sequences, args, Threads(2));
    EXPECT_TRUE(out == expected);
    EXPECT_TRUE(lse == expected_lse);
    // The batch in reverse order.
    std::fill(out.begin(), out.end(), nan);
    std::reverse(sequences.begin(), sequences.end());
    AttentionForward<T>(shape, sequences, args, Serial);
    EXPECT_TRUE(out == expected);
  }
}

// The promise of the tile-aligned layout: siblings that begin on a tile border see their path's tiles in the order of
// their own sequence.
TYPED_TEST(TreeAttentionOf, TileAlignedSiblingEqualsItsOwnSequenceBitForBit) {
  using T = TypeParam;
  for (int64_t window : {0, 90}) {
    std::mt19937_64 rng(6);
    const AttentionShape shape{2, 1, 32, 0.2, window};
    Stream<T> tree(rng, shape, 4 * kKeyTile, 0, 0);
    // Prefix of one tile, first branch of two, second branch of one.
    for (int64_t j = kKeyTile; j < 3 * kKeyTile; ++j) tree.visible_end[j] = 3 * kKeyTile;
    tree.positions = testing::Depths(tree.visible_end);
    Stream<T> alone = tree;
    alone.rows = 2 * kKeyTile;
    alone.visible_end.clear();
    alone.positions.clear();
    const auto take = [](std::vector<T>& values, int64_t width) {
      std::copy_n(values.begin() + 3 * kKeyTile * width, kKeyTile * width, values.begin() + kKeyTile * width);
      values.resize(2 * kKeyTile * width);
    };
    take(alone.q, 64);
    take(alone.k, 32);
    take(alone.v, 32);
    take(alone.grad_out, 64);
    const Result<T> in_tree = Compute(tree, Serial), own = Compute(alone, Serial);
    EXPECT_TRUE(std::equal(own.out.begin() + kKeyTile * 64, own.out.end(), in_tree.out.begin() + 3 * kKeyTile * 64));
    EXPECT_TRUE(std::equal(own.lse.begin() + kKeyTile * 2, own.lse.end(), in_tree.lse.begin() + 3 * kKeyTile * 2));
  }
}

// The exact layout: every branch of a packed tree is a sequence over its path, whose keys lie in runs of the stream. It
// must equal the same keys copied together. Branches have one or many rows, and forks lie anywhere in a tile.
TYPED_TEST(TreeAttentionOf, PathsOverRunsEqualTheirOwnSequencesBitForBit) {
  using T = TypeParam;
  for (const int64_t window : {0, 90}) {
    std::mt19937_64 rng(14);
    const AttentionShape shape{4, 2, 24, 0.2, window, window > 0 ? 0.8 : 0};
    const int64_t q_width = 4 * 24, kv_width = 2 * 24;
    Stream<T> tree(rng, shape, 700, 0.02, 0.003);
    tree.sinks = RandomVector<Accumulator<T>>(rng, 4);
    std::vector<std::vector<KeyRun>> runs;
    std::vector<AttentionSequence> paths;
    std::vector<T> own_out(tree.q.size());
    std::vector<Accumulator<T>> own_lse(tree.rows * 4);
    std::vector<KeyRun> run;
    for (int64_t row = 0, end; row < tree.rows; row = end) {
      const int32_t depth = tree.positions[row];
      for (end = row + 1; end < tree.rows && tree.positions[end] == tree.positions[end - 1] + 1;) ++end;
      while (!run.empty() && run.back().key >= depth) run.pop_back();
      run.push_back({depth, static_cast<int32_t>(row)});
      runs.push_back(run);
      AttentionSequence& path = paths.emplace_back();
      path.q_begin = row;
      path.q_count = end - row;
      path.q_offset = depth;
      path.key_count = depth + end - row;
      path.key_run_count = static_cast<int64_t>(run.size());

      std::vector<T> k, v;
      for (int64_t j = 0; j < end; ++j) {
        if (tree.visible_end[j] < end) continue;
        k.insert(k.end(), tree.k.begin() + j * kv_width, tree.k.begin() + (j + 1) * kv_width);
        v.insert(v.end(), tree.v.begin() + j * kv_width, tree.v.begin() + (j + 1) * kv_width);
      }
      ASSERT_EQ(static_cast<int64_t>(k.size()), path.key_count * kv_width);
      AttentionForwardArgs<T> args{tree.q.data(), k.data(), v.data(), tree.Sinks(), own_out.data(), own_lse.data()};
      AttentionForward<T>(shape, {&path, 1}, args, Serial);
    }
    ASSERT_GT(paths.size(), 10u);
    for (size_t i = 0; i < paths.size(); ++i) paths[i].key_runs = runs[i].data();
    std::vector<T> out(tree.q.size());
    std::vector<Accumulator<T>> lse(tree.rows * 4);
    AttentionForwardArgs<T> args{tree.q.data(), tree.k.data(), tree.v.data(), tree.Sinks(), out.data(), lse.data()};
    AttentionForward<T>(shape, paths, args, Threads(2));
    EXPECT_TRUE(out == own_out);
    EXPECT_TRUE(lse == own_lse);
    const ReferenceResult want =
        GatheredPaths<T>({shape, tree.visible_end, 0, tree.sinks, tree.q, tree.k, tree.v, tree.grad_out});
    EXPECT_LT(RelativeError(out, want.out), kTolerance<T>.out);
    EXPECT_EQ(out.size(), tree.rows * q_width);
  }
}

// Two branches below a prefix, each trained alone over the prefix's keys, against the whole tree at once.
TYPED_TEST(TreeAttentionOf, GradientsOfAPrefixCollectOverItsBranches) {
  using T = TypeParam;
  using Acc = Accumulator<T>;
  std::mt19937_64 rng(12);
  const int64_t prefix = 150, branch = 100, heads = 4, depth = 16, q_width = heads * depth, kv_width = 2 * depth;
  Stream<T> tree(rng, {heads, 2, depth, 0.25}, prefix + 2 * branch, 0, 0);
  for (int64_t j = prefix; j < prefix + branch; ++j) tree.visible_end[j] = static_cast<int32_t>(prefix + branch);
  tree.positions.clear();
  std::fill(tree.grad_out.begin(), tree.grad_out.begin() + prefix * q_width, T{});  // the loss is on the branches
  const Result<T> whole = Compute(tree, Serial);
  std::vector<Acc> grad_k((prefix + branch) * kv_width, 0), grad_v = grad_k;
  for (int64_t b = 0; b < 2; ++b) {
    const int64_t first = prefix + b * branch;
    const auto path = [&](const std::vector<T>& all) {
      std::vector<T> rows(all.begin(), all.begin() + prefix * kv_width);
      rows.insert(rows.end(), all.begin() + first * kv_width, all.begin() + (first + branch) * kv_width);
      return rows;
    };
    const std::vector<T> k = path(tree.k), v = path(tree.v);
    std::vector<T> grad_q(branch * q_width);
    std::fill(grad_k.begin() + prefix * kv_width, grad_k.end(), Acc(0));
    std::fill(grad_v.begin() + prefix * kv_width, grad_v.end(), Acc(0));
    AttentionBackwardArgs<T> args;
    args.rows = branch;
    args.keys = prefix + branch;
    args.q_offset = prefix;
    args.q = tree.q.data() + first * q_width;
    args.k = k.data();
    args.v = v.data();
    args.out = whole.out.data() + first * q_width;
    args.lse = whole.lse.data() + first * heads;
    args.grad_out = tree.grad_out.data() + first * q_width;
    args.grad_q = grad_q.data();
    args.grad_k_sum = grad_k.data();
    args.grad_v_sum = grad_v.data();
    AttentionBackward<T>(tree.shape, args, Serial);
    std::vector<double> want_q;
    for (int64_t i = first * q_width; i < (first + branch) * q_width; ++i) {
      want_q.push_back(testing::Wide(whole.grad_q[i]));
    }
    EXPECT_LT(RelativeError(grad_q, want_q), kTolerance<T>.grad);
  }
  grad_k.resize(prefix * kv_width);
  grad_v.resize(prefix * kv_width);
  std::vector<double> want_k, want_v;
  for (int64_t i = 0; i < prefix * kv_width; ++i) {
    want_k.push_back(testing::Wide(whole.grad_k[i]));
    want_v.push_back(testing::Wide(whole.grad_v[i]));
  }
  EXPECT_LT(RelativeError(grad_k, want_k), kTolerance<T>.grad);
  EXPECT_LT(RelativeError(grad_v, want_v), kTolerance<T>.grad);
}

TEST(TreeAttention, QueryThatSeesNothingGetsZerosAndNoGradient) {
  std::mt19937_64 rng(7);
  Stream<float> s(rng, {2, 2, 16, 0.25}, 70, 0, 0);
  for (int32_t& end : s.visible_end) end = 5;  // rows from 5 on see nothing
  const Result<float> r = Compute(s, Serial);
  EXPECT_TRUE(std::all_of(r.out.begin() + 5 * 32, r.out.end(), [](float x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(r.grad_q.begin() + 5 * 32, r.grad_q.end(), [](float x) { return x == 0; }));
  EXPECT_EQ(r.lse[5 * 2], -INFINITY);
  ExpectClose(s, r);
  // A sink does not change the zeros, but such a row has seen the sink.
  s.sinks = {0.5f, -1};
  const Result<float> sunk = Compute(s, Serial);
  EXPECT_EQ(sunk.out[5 * 32], 0);
  EXPECT_NEAR(sunk.lse[5 * 2], 0.5, 1e-6);
  ExpectClose(s, sunk);
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
  // Scores of thousands carry errors of 1e-3.
  ExpectClose(s, r, {1e-3, 1e-6, 1});
}

}  // namespace
}  // namespace ingot::kernels
