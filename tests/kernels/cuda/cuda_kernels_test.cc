// The CUDA attention kernels, emulated, against gathered paths in fp64. They do not run on a card: see
// cuda_attention_test.cc.
#include "kernels/cuda/emulated_attention.h"

#include <map>
#include <utility>

namespace ingot::kernels {
namespace {

using testing::EmulatedBackward;
using testing::EmulatedForward;
using testing::ExpectClose;
using testing::RandomVector;
using testing::Result;
using testing::Stream;

template <typename T>
Result<T> Emulate(const Stream<T>& s, uint64_t seed = 0) {
  const T seven = testing::Narrow<T>(7);
  Result<T> r{std::vector<T>(s.q.size(), seven),
              std::vector<T>(s.q.size(), seven),
              std::vector<T>(s.k.size(), seven),
              std::vector<T>(s.k.size(), seven),
              {},
              {}};
  r.lse.assign(s.rows * s.shape.heads, 7);
  r.grad_sinks.assign(s.sinks.size(), 7);
  AttentionSequence sequence;
  sequence.q_count = sequence.key_count = s.rows;
  sequence.visible_end = s.Ends();
  sequence.positions = s.Positions();
  AttentionForwardArgs<T> f;
  f.q = s.q.data();
  f.k = s.k.data();
  f.v = s.v.data();
  f.sinks = s.Sinks();
  f.out = r.out.data();
  f.lse = r.lse.data();
  EmulatedForward<T>(s.shape, {&sequence, 1}, f, seed);
  AttentionBackwardArgs<T> b;
  b.rows = b.keys = s.rows;
  b.visible_end = s.Ends();
  b.positions = s.Positions();
  b.q = f.q;
  b.k = f.k;
  b.v = f.v;
  b.sinks = f.sinks;
  b.out = f.out;
  b.lse = f.lse;
  b.grad_out = s.grad_out.data();
  b.grad_q = r.grad_q.data();
  b.grad_k = r.grad_k.data();
  b.grad_v = r.grad_v.data();
  b.grad_sinks = s.sinks.empty() ? nullptr : r.grad_sinks.data();
  EmulatedBackward<T>(s.shape, b, seed);
  return r;
}

template <typename T>
class CudaKernelsOf : public ::testing::Test {};
using Numbers = ::testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(CudaKernelsOf, Numbers);

// Grouped heads of every kind, widths that do not fill a chunk, several blocks of output columns, a negative scale.
TYPED_TEST(CudaKernelsOf, EqualGatheredPathsOnRandomForests) {
  std::mt19937_64 rng(1);
  const AttentionShape shapes[] = {
      {2, 2, 32, 0.2}, {6, 1, 8, 0.3}, {3, 3, 5, 0.4}, {2, 1, 136, 0.09}, {70, 1, 8, -0.2}};
  int round = 0;
  for (const AttentionShape& shape : shapes) {
    for (const int64_t rows : {1, 65, 130}) {
      if (shape.heads > 8 && rows > 65) continue;
      Stream<TypeParam> s(rng, shape, rows, std::uniform_real_distribution<double>(0, 0.3)(rng), 0.02);
      s.shape.window = round % 3 == 0 ? 0 : 1 + static_cast<int64_t>(rng() % 90);
      if (round++ % 2 == 0) s.sinks = RandomVector<Accumulator<TypeParam>>(rng, shape.heads, 2.0);
      SCOPED_TRACE(std::to_string(shape.head_dim) + " wide, rows " + std::to_string(rows) + ", window " +
                   std::to_string(s.shape.window) + (s.sinks.empty() ? "" : ", sinks"));
      ExpectClose(s, Emulate(s));
    }
  }
}

// Any order of the threads between two barriers gives the same bits: no barrier is missing.
TYPED_TEST(CudaKernelsOf, DoNotDependOnTheOrderOfThreads) {
  std::mt19937_64 rng(2);
  Stream<TypeParam> s(rng, {4, 2, 40, 0.2}, 90, 0.1, 0.02);
  s.sinks = RandomVector<Accumulator<TypeParam>>(rng, 4);
  s.shape.window = 60;
  const Result<TypeParam> straight = Emulate(s);
  for (const uint64_t seed : {1, 2}) {
    Emulate(Stream<TypeParam>(rng, {2, 2, 40, 0.2}, 65, 0, 0));  // fills shared memory with other remains
    EXPECT_TRUE(straight == Emulate(s, seed)) << seed;
  }
}

TYPED_TEST(CudaKernelsOf, AreCausalWithoutVisibleEndAndCountIndicesWithoutPositions) {
  std::mt19937_64 rng(3);
  Stream<TypeParam> s(rng, {2, 1, 16, 0.25}, 200, 0, 0);
  s.shape.window = 90;
  const Result<TypeParam> with = Emulate(s);
  s.positions.clear();
  s.visible_end.clear();
  EXPECT_TRUE(with == Emulate(s));
  ExpectClose(s, with);
}

TYPED_TEST(CudaKernelsOf, TakeTheMeanAtAScaleOfZero) {
  std::mt19937_64 rng(4);
  const Stream<TypeParam> s(rng, {2, 1, 16, 0.0}, 70, 0.1, 0);
  ExpectClose(s, Emulate(s));
}

// Decodes, chunks of a prompt and trees in one batch over pages. Each equals its own sequence to the bit.
TYPED_TEST(CudaKernelsOf, GiveAPagedBatchTheBitsOfEachSequenceAlone) {
  using T = TypeParam;
  const T nan = testing::Narrow<T>(NAN);
  std::mt19937_64 rng(5);
  for (const int64_t page_size : {1, 24}) {
    SCOPED_TRACE(page_size);
    AttentionShape shape{4, 2, 24, 0.18, page_size == 24 ? 70 : 0};
    const std::vector<Accumulator<T>> sinks = RandomVector<Accumulator<T>>(rng, shape.heads);
    const int64_t q_width = shape.heads * shape.head_dim, kv_width = shape.kv_heads * shape.head_dim;
    const struct {
      int64_t length, offset;
      bool tree;
    } parts[] = {{130, 129, false}, {70, 0, true}, {65, 64, false}, {90, 40, true}, {1, 0, false}};
    constexpr int64_t kKeys = 900;
    std::vector<int32_t> free(kKeys / page_size);
    for (size_t p = 0; p < free.size(); ++p) free[p] = static_cast<int32_t>(p);
    std::shuffle(free.begin(), free.end(), rng);
    // Rows that no sequence owns are not-a-number, so that reading one would show.
    std::vector<T> k_pages(kKeys * kv_width, nan), v_pages = k_pages, q, expected;
    std::vector<Accumulator<T>> expected_lse;
    std::vector<Stream<T>> streams;
    std::vector<std::vector<int32_t>> tables(std::size(parts));
    std::vector<AttentionSequence> sequences;
    for (const auto& part : parts) streams.emplace_back(rng, shape, part.length, part.tree ? 0.1 : 0, 0);
    int64_t row = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      Stream<T>& s = streams[i];
      s.sinks = sinks;
      const Result<T> alone = Emulate(s);
      for (int64_t key = 0; key < s.rows; ++key) {
        if (key % page_size == 0) {
          tables[i].push_back(free.back());
          free.pop_back();
        }
        const int64_t at = (tables[i].back() * page_size + key % page_size) * kv_width;
        std::copy_n(s.k.data() + key * kv_width, kv_width, k_pages.data() + at);
        std::copy_n(s.v.data() + key * kv_width, kv_width, v_pages.data() + at);
      }
      AttentionSequence& sequence = sequences.emplace_back();
      sequence.q_begin = row;
      sequence.q_offset = parts[i].offset;
      sequence.q_count = s.rows - parts[i].offset;
      sequence.key_count = s.rows;
      sequence.block_table = tables[i].data();
      sequence.visible_end = parts[i].tree ? s.visible_end.data() : nullptr;
      sequence.positions = parts[i].tree ? s.positions.data() : nullptr;
      row += sequence.q_count;
      q.insert(q.end(), s.q.begin() + parts[i].offset * q_width, s.q.end());
      expected.insert(expected.end(), alone.out.begin() + parts[i].offset * q_width, alone.out.end());
      expected_lse.insert(expected_lse.end(), alone.lse.begin() + parts[i].offset * shape.heads, alone.lse.end());
    }
    std::vector<T> out(q.size(), nan);
    std::vector<Accumulator<T>> lse(row * shape.heads, NAN);
    AttentionForwardArgs<T> args;
    args.q = q.data();
    args.k = k_pages.data();
    args.v = v_pages.data();
    args.sinks = sinks.data();
    args.out = out.data();
    args.lse = lse.data();
    args.page_size = page_size;
    EmulatedForward<T>(shape, sequences, args, 0);
    EXPECT_TRUE(out == expected);
    EXPECT_TRUE(lse == expected_lse);
  }
}

// Rows of a fused projection lie further apart than their width.
TEST(CudaKernels, ReadRowsThatAreApart) {
  std::mt19937_64 rng(6);
  const int64_t rows = 80, head_dim = 16, q_width = 2 * head_dim, kv_width = head_dim, stride = q_width + 2 * kv_width;
  Stream<float> s(rng, {2, 1, head_dim, 0.25}, rows, 0.1, 0);
  const Result<float> dense = Emulate(s);
  std::vector<float> fused(rows * stride, NAN), out(s.q.size());
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(s.q.data() + r * q_width, q_width, fused.data() + r * stride);
    std::copy_n(s.k.data() + r * kv_width, kv_width, fused.data() + r * stride + q_width);
    std::copy_n(s.v.data() + r * kv_width, kv_width, fused.data() + r * stride + q_width + kv_width);
  }
  AttentionSequence sequence;
  sequence.q_count = sequence.key_count = rows;
  sequence.visible_end = s.Ends();
  AttentionForwardArgs<float> args;
  args.q = fused.data();
  args.k = args.q + q_width;
  args.v = args.k + kv_width;
  args.q_row_stride = args.k_row_stride = args.v_row_stride = stride;
  args.out = out.data();
  EmulatedForward<float>(s.shape, {&sequence, 1}, args, 0);
  EXPECT_EQ(out, dense.out);
}

// Queries behind a prefix of keys. The prefix's gradients equal its share of the whole's.
TEST(CudaKernels, GradientsOfQueriesAfterAPrefix) {
  std::mt19937_64 rng(7);
  const int64_t prefix = 70, rows = 100, branch = rows - prefix;
  Stream<double> s(rng, {2, 1, 16, 0.25}, rows, 0, 0);
  std::fill_n(s.grad_out.begin(), prefix * 32, 0.0);
  const Result<double> whole = Emulate(s);
  std::vector<double> grad_q(branch * 32), grad_k(rows * 16), grad_v(rows * 16);
  AttentionBackwardArgs<double> args;
  args.rows = branch;
  args.keys = rows;
  args.q_offset = prefix;
  args.q = s.q.data() + prefix * 32;
  args.k = s.k.data();
  args.v = s.v.data();
  args.out = whole.out.data() + prefix * 32;
  args.lse = whole.lse.data() + prefix * 2;
  args.grad_out = s.grad_out.data() + prefix * 32;
  args.grad_q = grad_q.data();
  args.grad_k = grad_k.data();
  args.grad_v = grad_v.data();
  EmulatedBackward<double>(s.shape, args, 0);
  EXPECT_LT(testing::RelativeError(grad_k, whole.grad_k), 1e-13);
  EXPECT_LT(testing::RelativeError(grad_v, whole.grad_v), 1e-13);
  EXPECT_TRUE(std::equal(grad_q.begin(), grad_q.end(), whole.grad_q.begin() + prefix * 32));
}

TEST(CudaKernels, QueryThatSeesNothingGetsZerosAndNoGradient) {
  std::mt19937_64 rng(8);
  Stream<float> s(rng, {2, 2, 16, 0.25}, 70, 0, 0);
  for (int32_t& end : s.visible_end) end = 5;  // rows from 5 on see nothing
  const Result<float> r = Emulate(s);
  EXPECT_TRUE(std::all_of(r.out.begin() + 5 * 32, r.out.end(), [](float x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(r.grad_q.begin() + 5 * 32, r.grad_q.end(), [](float x) { return x == 0; }));
  EXPECT_EQ(r.lse[5 * 2], -INFINITY);
  ExpectClose(s, r);
  s.sinks = {0.5f, -1};
  const Result<float> sunk = Emulate(s);
  EXPECT_NEAR(sunk.lse[5 * 2], 0.5, 1e-6);
  ExpectClose(s, sunk);
}

TEST(CudaKernels, NotANumberInAQueryComesOutOfItAlone) {
  std::mt19937_64 rng(9);
  Stream<float> s(rng, {2, 2, 16, 0.25}, 90, 0.1, 0);
  s.q[40 * 32] = NAN;
  const Result<float> r = Emulate(s);
  EXPECT_TRUE(std::isnan(r.out[40 * 32]));
  EXPECT_FALSE(std::isnan(r.out[41 * 32]));
}

// A test of the emulation: a kernel without its barrier.
void Reverse(int* values) {
  __shared__ int shared[64];
  const int i = static_cast<int>(threadIdx.x);
  shared[i] = values[i];
  if (values[64] != 0) __syncthreads();
  values[i] = shared[63 - i];
}

TEST(EmulatedCuda, ShowsAMissingBarrier) {
  const auto reverses = [](int base, int with_barrier, uint64_t seed) {
    std::vector<int> values(65);
    for (int i = 0; i < 64; ++i) values[i] = base + i;
    values[64] = with_barrier;
    emulated_cuda::Launch<int*>(Reverse, {1, 1, 1}, 64, seed, values.data());
    for (int i = 0; i < 64; ++i) {
      if (values[i] != base + 63 - i) return false;
    }
    return true;
  };
  EXPECT_TRUE(reverses(100, 1, 1));
  EXPECT_TRUE(reverses(200, 1, 2));
  EXPECT_FALSE(reverses(300, 0, 1));
}

TEST(AttentionPlan, NamesEveryVisibleTileAndTheSamePairsByTile) {
  std::mt19937_64 rng(10);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(rng() % 700), group = 1 + static_cast<int64_t>(rng() % 5);
    const std::vector<int32_t> ends = testing::RandomForest(rng, rows, 0.02 * static_cast<double>(round % 4), 0.01);
    const std::vector<int32_t> depths = testing::Depths(ends);
    const AttentionShape shape{group, 1, 8, 1.0, round % 2 == 0 ? 0 : 1 + static_cast<int64_t>(rng() % 200)};
    AttentionSequence sequence;
    sequence.q_count = sequence.key_count = rows;
    sequence.visible_end = ends.data();
    sequence.positions = depths.data();
    const int block_rows = round % 3 == 0 ? cuda::kMmaRows : cuda::kTileRows;
    const cuda::AttentionPlan plan(shape, {&sequence, 1}, 0, true, block_rows);
    std::vector<std::vector<bool>> named(plan.blocks().size(), std::vector<bool>(plan.key_blocks().size()));
    std::vector<std::vector<bool>> whole = named;  // needs no mask
    int64_t next_row = 0;
    for (size_t b = 0; b < plan.blocks().size(); ++b) {
      const cuda::RowBlock& block = plan.blocks()[b];
      EXPECT_EQ(block.first_row, next_row);
      next_row += block.rows;
      for (int32_t r = block.first_run; r < block.last_run; ++r) {
        for (int32_t t = plan.runs()[r].first; t < plan.runs()[r].last; ++t) {
          named[b][t] = true;
          whole[b][t] = plan.runs()[r].masked == 0;
        }
      }
    }
    EXPECT_EQ(next_row, rows * group);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t places = (rows + cuda::kTileKeys - 1) / cuda::kTileKeys * cuda::kTileKeys;
      for (int64_t j = 0; j < places; ++j) {
        const bool sees = j <= i && ends[j] > i && (shape.window == 0 || depths[i] - depths[j] < shape.window);
        for (const int64_t row : {i * group, i * group + group - 1}) {
          const int64_t block = row / block_rows, tile = j / cuda::kTileKeys;
          if (sees) {
            ASSERT_TRUE(named[block][tile]) << i << " sees " << j;
          } else {
            ASSERT_FALSE(whole[block][tile]) << i << " does not see " << j;
          }
        }
      }
    }
    for (const cuda::KeyBlock& keys : plan.key_blocks()) {
      std::vector<bool> blocks(plan.blocks().size());
      for (int32_t r = keys.first_run; r < keys.last_run; ++r) {
        for (int32_t b = plan.block_runs()[r].first; b < plan.block_runs()[r].last; ++b) blocks[b] = true;
      }
      for (size_t b = 0; b < blocks.size(); ++b) EXPECT_EQ(blocks[b], named[b][keys.tile]);
    }
  }
}

// The parts of a tile have the whole list, in order, and nearly equal lengths. The longest key blocks come first.
TEST(AttentionPlan, CutsLongListsIntoEqualParts) {
  std::mt19937_64 rng(12);
  for (int round = 0; round < 20; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(rng() % 3000), most = 1 + static_cast<int64_t>(rng() % 9);
    const std::vector<int32_t> ends = testing::RandomForest(rng, rows, 0.01 * static_cast<double>(round % 4), 0.002);
    AttentionSequence sequence;
    sequence.q_count = sequence.key_count = rows;
    sequence.visible_end = ends.data();
    const AttentionShape shape{2, 1, 8, 1.0};
    const cuda::AttentionPlan whole(shape, {&sequence, 1}, 0, true);
    const cuda::AttentionPlan cut(shape, {&sequence, 1}, 0, true, cuda::kTileRows, most);
    const auto blocks = [](const cuda::AttentionPlan& plan, const cuda::KeyBlock& keys) {
      std::vector<std::pair<int32_t, int32_t>> list;  // block, masked
      for (int32_t r = keys.first_run; r < keys.last_run; ++r) {
        const cuda::Run run = plan.block_runs()[r];
        for (int32_t b = run.first; b < run.last; ++b) list.emplace_back(b, run.masked);
      }
      return list;
    };
    std::map<int32_t, std::map<int32_t, cuda::KeyBlock>> parts;  // by tile and slot
    int64_t before = rows;
    for (const cuda::KeyBlock& keys : cut.key_blocks()) {
      EXPECT_TRUE(parts[keys.tile].emplace(keys.slot, keys).second);
      EXPECT_LE(cut.Length(keys), before);
      before = cut.Length(keys);
    }
    int64_t slots = 0, pairs = 0;
    for (const cuda::KeyBlock& keys : whole.key_blocks()) pairs += whole.Length(keys);
    const int64_t longest = std::max(most, (pairs + cuda::kMostKeyParts - 1) / cuda::kMostKeyParts);
    size_t sum = 0;
    for (const cuda::KeyBlock& keys : whole.key_blocks()) {
      std::vector<std::pair<int32_t, int32_t>> joined;
      const auto& of_tile = parts.at(keys.tile);
      for (const auto& [slot, part] : of_tile) {
        const auto list = blocks(cut, part);
        joined.insert(joined.end(), list.begin(), list.end());
        EXPECT_LE(std::ssize(list), longest);
        EXPECT_LE(std::abs(std::ssize(list) - whole.Length(keys) / std::ssize(of_tile)), 1);
      }
      EXPECT_TRUE(joined == blocks(whole, keys));
      if (of_tile.size() == 1) {
        EXPECT_EQ(of_tile.begin()->first, -1);
        continue;
      }
      ASSERT_LT(sum, cut.key_sums().size());
      const cuda::KeySum& sums = cut.key_sums()[sum++];
      EXPECT_EQ(sums.tile, keys.tile);
      EXPECT_EQ(sums.first_slot, slots);
      EXPECT_EQ(sums.last_slot, slots + std::ssize(of_tile));
      EXPECT_EQ(of_tile.begin()->first, slots);
      slots = sums.last_slot;
    }
    EXPECT_EQ(sum, cut.key_sums().size());
    EXPECT_EQ(slots, cut.slots());
  }
}

// Sixteen branches below a prompt: the plan grows with the visible pairs, not with the square of the stream.
TEST(AttentionPlan, IsARunPerBlockAndBranch) {
  const int64_t prompt = 1024, branch = 256, branches = 16, rows = prompt + branches * branch;
  std::vector<int32_t> ends(rows, static_cast<int32_t>(rows));
  for (int64_t j = prompt; j < rows; ++j) {
    ends[j] = static_cast<int32_t>(prompt + ((j - prompt) / branch + 1) * branch);
  }
  AttentionSequence sequence;
  sequence.q_count = sequence.key_count = rows;
  sequence.visible_end = ends.data();
  const cuda::AttentionPlan plan({1, 1, 8, 1.0}, {&sequence, 1}, 0, true);
  EXPECT_LE(plan.runs().size(), 3 * plan.blocks().size());
  const cuda::RowBlock last = plan.blocks().back();
  ASSERT_EQ(last.last_run - last.first_run, 3);  // the prompt, its own branch, and the tile with its own rows
  const cuda::TileRun* const runs = plan.runs().data() + last.first_run;
  EXPECT_EQ(std::vector<int32_t>({runs[0].last, runs[0].masked, runs[1].first, runs[1].masked, runs[2].masked}),
            std::vector<int32_t>({16, 0, 76, 0, 1}));
}

}  // namespace
}  // namespace ingot::kernels
