// The attention kernel with tensor cores (src/kernels/cuda/attention_forward_mma.cuh), compiled to PTX by nvcc, on the
// machine: results against fp64, equal bits for every batch and all pages, bank conflicts, and each barrier and wait.
#include <algorithm>
#include <limits>
#include <random>

#include "kernels/attention/bench_trees.h"
#include "kernels/cuda/attention_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::AttentionSequence;
using kernels::AttentionShape;
using kernels::BFloat16;
using kernels::testing::kTolerance;
using kernels::testing::RandomVector;
using kernels::testing::RelativeError;
using kernels::testing::Stream;
namespace cuda = kernels::cuda;

const std::string& MmaPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/attention_mma.cu", "");
  return text;
}

std::string KernelOf(int64_t width) {
  return std::string("_ZN5ingot7kernels4cuda16ForwardMmaKernelILi") + (width <= 64 ? "64" : "128") +
         "EEEvNS1_14ForwardMmaArgsE";
}

// sizeof(MmaMemory<64>) and sizeof(MmaMemory<128>).
size_t SharedBytes(int64_t width) { return width <= 64 ? 37488 : 70256; }

struct Inputs {
  std::vector<BFloat16> q, k, v;
  std::vector<float> sinks;
  int64_t page_size = 0, queries = 0;
  int64_t row_stride = 0;  // of q, k, and v; 0 = dense
};

struct Forward {
  std::vector<BFloat16> out;
  std::vector<float> lse;
  bool operator==(const Forward&) const = default;
};

Forward RunMma(Machine& m, const AttentionShape& s, std::span<const AttentionSequence> sequences, const Inputs& in) {
  const cuda::AttentionPlan plan(s, sequences, in.page_size, false, cuda::kMmaRows);
  std::vector<std::byte> packed(plan.packed_bytes());
  plan.Pack(packed.data());
  const int64_t q_row = in.row_stride == 0 ? s.heads * s.head_dim : in.row_stride;
  const int64_t k_row = in.row_stride == 0 ? s.kv_heads * s.head_dim : in.row_stride;
  const cuda::Shape shape{s.heads, s.kv_heads, s.head_dim, s.heads / s.kv_heads, s.window, in.page_size, q_row,
                          k_row,   k_row,      s.scale};
  EXPECT_TRUE(cuda::UsesMma<BFloat16>(shape));
  const size_t entries = in.queries * s.heads;
  BFloat16* const out = m.Put(std::vector<BFloat16>(entries * s.head_dim, kernels::ToBFloat16(7)));
  float* const lse = m.Put(std::vector<float>(entries, 7));
  const cuda::ForwardArgs<BFloat16> args{shape,       plan.View(m.Put(packed)), m.Put(in.q), m.Put(in.k),
                                         m.Put(in.v), m.Put(in.sinks),          out,         lse};
  m.Run(KernelOf(s.head_dim),
        {{static_cast<unsigned>(plan.blocks().size()), static_cast<unsigned>(s.kv_heads), 1},
         {128, 1, 1},
         SharedBytes(s.head_dim)},
        cuda::MakeMmaArgs(args));
  return {m.Get(out, entries * s.head_dim), m.Get(lse, entries)};
}

Forward RunMma(Machine& m, const Stream<BFloat16>& s) {
  const AttentionSequence sequence = SequenceOf(s);
  return RunMma(m, s.shape, {&sequence, 1}, {s.q, s.k, s.v, s.sinks, 0, s.rows});
}

// Compares every `step`-th query. Rounding of probabilities and outputs to bf16 limits out, but not lse.
void ExpectClose(const Stream<BFloat16>& s, const Forward& got, int64_t step = 1) {
  std::vector<double> out, lse;
  std::vector<BFloat16> got_out;
  std::vector<float> got_lse;
  for (int64_t query = 0; query < s.rows; query += step) {
    for (int64_t head = 0; head < s.shape.heads; ++head) {
      const Row row = Define(s, query, head);
      const int64_t entry = query * s.shape.heads + head;
      const auto first = got.out.begin() + entry * s.shape.head_dim;
      out.insert(out.end(), row.out.begin(), row.out.end());
      got_out.insert(got_out.end(), first, first + s.shape.head_dim);
      lse.push_back(row.lse);
      got_lse.push_back(got.lse[entry]);
    }
  }
  EXPECT_LT(RelativeError(got_out, out), kTolerance<BFloat16>.out);
  EXPECT_LT(RelativeError(got_lse, lse), kTolerance<BFloat16>.lse);
}

Stream<BFloat16> Tree(uint64_t seed, const AttentionShape& shape, int64_t rows, bool sinks = false) {
  std::mt19937_64 rng(seed);
  Stream<BFloat16> s(rng, shape, rows, 0.05, 0.01);
  if (sinks) s.sinks = RandomVector<float>(rng, shape.heads, 2.0);
  return s;
}

class PtxAttentionMma : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }
};

// A random forest, with heads, groups, widths, windows, sinks, and signs of the scale by the seed.
void CheckForest(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&rng](uint64_t n) { return static_cast<int64_t>(rng() % n); };
  const int64_t kv_heads = 1 + below(2), group = 1 + below(5), width = 8 * (1 + below(16));
  AttentionShape shape{kv_heads * group, kv_heads, width, 1.2 / std::sqrt(static_cast<double>(width))};
  if (seed % 3 == 0) shape.window = 1 + below(150);
  if (seed % 7 == 0) shape.scale = -shape.scale;
  if (seed % 13 == 0) shape.scale = 0;
  const Stream<BFloat16> s = Tree(seed, shape, 1 + below(260), seed % 2 == 0);
  Machine m(MmaPtx());
  m.options.seed = seed;
  m.options.arrival = seed % 2 == 0 ? Arrival::kLate : Arrival::kRandom;
  m.options.sum = seed % 4 < 2 ? SumOrder::kAscending : SumOrder::kTensorCore;
  m.options.approximate = seed % 5 == 0;
  SCOPED_TRACE("forest " + std::to_string(seed) + ": heads " + std::to_string(shape.heads) + "/" +
               std::to_string(kv_heads) + ", width " + std::to_string(width) + ", rows " + std::to_string(s.rows) +
               ", window " + std::to_string(shape.window));
  ExpectClose(s, RunMma(m, s));
  ExpectNoReport(m);
  EXPECT_EQ(m.counters.wavefronts, m.counters.ideal_wavefronts) << "bank conflicts";
}

TEST_F(PtxAttentionMma, EqualsTheDefinitionOnRandomForests) {
  const auto trials = static_cast<uint64_t>(Trials(14, 500));
  for (uint64_t seed = 1; seed <= trials && !HasFailure(); ++seed) CheckForest(seed);
}

struct NamedTree {
  std::string name;
  std::vector<int32_t> visible_end;
};

// The trees of the benchmark, with all lengths divided.
std::vector<NamedTree> BenchTrees(int64_t divisor) {
  const int64_t k = 1024 / divisor;
  return {{"group-8", kernels::GroupTree(4 * k, k / 2, 8)},
          {"group-16", kernels::GroupTree(k, k, 16)},
          {"dialogue-20", kernels::DialogueTree(4 * k, 20, std::max<int64_t>(1, 160 / divisor), k / 2,
                                                std::max<int64_t>(1, 160 / divisor))}};
}

void CheckBenchTrees(int64_t divisor, const AttentionShape& shape, int64_t step) {
  for (const NamedTree& tree : BenchTrees(divisor)) {
    SCOPED_TRACE(tree.name);
    Machine m(MmaPtx());
    std::mt19937_64 rng(divisor);
    Stream<BFloat16> s(rng, shape, static_cast<int64_t>(tree.visible_end.size()), 0, 0);
    s.visible_end = tree.visible_end;
    s.positions = kernels::testing::Depths(s.visible_end);
    ExpectClose(s, RunMma(m, s), step);
    ExpectNoReport(m);
    EXPECT_EQ(m.counters.wavefronts, m.counters.ideal_wavefronts) << "bank conflicts";
  }
}

TEST_F(PtxAttentionMma, EqualsTheDefinitionOnTheBenchmarksTrees) {
  const int64_t divisor = Trials(32, 1);
  CheckBenchTrees(divisor, {divisor == 1 ? 1 : 2, 1, 128, 0.09}, divisor == 1 ? 97 : 7);
}

// Decodes, chunks of a prompt, and trees in one batch over pages. Each equals its own sequence to the bit.
TEST_F(PtxAttentionMma, GivesAPagedBatchTheBitsOfEachSequenceAlone) {
  const BFloat16 nan = kernels::ToBFloat16(NAN);
  std::mt19937_64 rng(5);
  for (const int64_t page_size : {1, 24, 64}) {
    SCOPED_TRACE(page_size);
    const AttentionShape shape{4, 2, page_size == 1 ? 128 : 40, 0.12, page_size == 24 ? 70 : 0};
    const int64_t q_row = shape.heads * shape.head_dim, k_row = shape.kv_heads * shape.head_dim;
    const struct {
      int64_t length, offset;
      bool tree;
    } parts[] = {{130, 129, false}, {170, 0, true}, {65, 64, false}, {190, 40, true}, {1, 0, false}};
    const int64_t keys = 1024 / page_size * page_size;
    std::vector<int32_t> free(keys / page_size);
    for (size_t p = 0; p < free.size(); ++p) free[p] = static_cast<int32_t>(p);
    std::shuffle(free.begin(), free.end(), rng);
    Machine m(MmaPtx());
    // Rows that no sequence owns are not-a-number, so that reading one would show.
    Inputs in{{},
              std::vector<BFloat16>(keys * k_row, nan),
              std::vector<BFloat16>(keys * k_row, nan),
              RandomVector<float>(rng, shape.heads),
              page_size};
    Forward want;
    std::vector<Stream<BFloat16>> streams;
    std::vector<std::vector<int32_t>> tables(std::size(parts));
    std::vector<AttentionSequence> sequences;
    for (const auto& part : parts) streams.emplace_back(rng, shape, part.length, part.tree ? 0.05 : 0, 0);
    for (size_t i = 0; i < streams.size(); ++i) {
      Stream<BFloat16>& s = streams[i];
      s.sinks = in.sinks;
      const Forward alone = RunMma(m, s);
      for (int64_t key = 0; key < s.rows; ++key) {
        if (key % page_size == 0) {
          tables[i].push_back(free.back());
          free.pop_back();
        }
        const int64_t to = (tables[i].back() * page_size + key % page_size) * k_row;
        std::copy_n(s.k.data() + key * k_row, k_row, in.k.data() + to);
        std::copy_n(s.v.data() + key * k_row, k_row, in.v.data() + to);
      }
      AttentionSequence& sequence = sequences.emplace_back();
      sequence.q_begin = in.queries;
      sequence.q_offset = parts[i].offset;
      sequence.q_count = s.rows - parts[i].offset;
      sequence.key_count = s.rows;
      sequence.block_table = tables[i].data();
      sequence.visible_end = parts[i].tree ? s.visible_end.data() : nullptr;
      sequence.positions = parts[i].tree ? s.positions.data() : nullptr;
      in.queries += sequence.q_count;
      in.q.insert(in.q.end(), s.q.begin() + parts[i].offset * q_row, s.q.end());
      want.out.insert(want.out.end(), alone.out.begin() + parts[i].offset * q_row, alone.out.end());
      want.lse.insert(want.lse.end(), alone.lse.begin() + parts[i].offset * shape.heads, alone.lse.end());
    }
    EXPECT_TRUE(RunMma(m, shape, sequences, in) == want);
    ExpectNoReport(m);
  }
}

// Rows of a fused projection lie further apart than their width.
TEST_F(PtxAttentionMma, ReadsRowsThatAreApart) {
  Machine m(MmaPtx());
  const Stream<BFloat16> s = Tree(6, {2, 1, 96, 0.1}, 150);
  const int64_t q_row = 192, k_row = 96, stride = q_row + 2 * k_row;
  std::vector<BFloat16> fused(s.rows * stride);
  for (int64_t row = 0; row < s.rows; ++row) {
    std::copy_n(s.q.data() + row * q_row, q_row, fused.data() + row * stride);
    std::copy_n(s.k.data() + row * k_row, k_row, fused.data() + row * stride + q_row);
    std::copy_n(s.v.data() + row * k_row, k_row, fused.data() + row * stride + q_row + k_row);
  }
  const AttentionSequence sequence = SequenceOf(s);
  const Inputs in{
      fused, {fused.begin() + q_row, fused.end()}, {fused.begin() + q_row + k_row, fused.end()}, {}, 0, s.rows, stride};
  EXPECT_TRUE(RunMma(m, s.shape, {&sequence, 1}, in) == RunMma(m, s));
  ExpectNoReport(m);
}

TEST_F(PtxAttentionMma, AQueryThatSeesNothingGetsZeros) {
  Stream<BFloat16> s = Tree(8, {2, 2, 64, 0.12}, 300);
  for (int32_t& end : s.visible_end) end = 5;  // rows from 5 on see nothing, and two blocks have no tile
  Machine m(MmaPtx());
  const Forward got = RunMma(m, s);
  EXPECT_TRUE(std::all_of(got.out.begin() + 5 * 128, got.out.end(), [](BFloat16 x) { return x.bits == 0; }));
  EXPECT_EQ(got.lse[5 * 2], -INFINITY);
  ExpectClose(s, got);
  s.sinks = {0.5f, -1};
  ExpectClose(s, RunMma(m, s));
  ExpectNoReport(m);
}

TEST_F(PtxAttentionMma, AnEndFarBeforeItsKeyHidesTheKey) {
  Stream<BFloat16> s = Tree(11, {1, 1, 64, 0.12}, 150);
  for (int64_t key = 65; key < s.rows; key += 2) s.visible_end[key] = std::numeric_limits<int32_t>::min();
  Machine m(MmaPtx());
  ExpectClose(s, RunMma(m, s));
  ExpectNoReport(m);
}

TEST_F(PtxAttentionMma, NotANumberInAQueryComesOutOfItAlone) {
  Machine m(MmaPtx());
  Stream<BFloat16> s = Tree(9, {2, 2, 64, 0.12}, 150);
  const Forward before = RunMma(m, s);
  s.q[40 * 128] = kernels::ToBFloat16(NAN);
  Forward after = RunMma(m, s);
  for (int64_t d = 0; d < 64; ++d) EXPECT_TRUE(std::isnan(kernels::ToFloat(after.out[40 * 128 + d])));
  EXPECT_TRUE(std::isnan(after.lse[80]));
  std::copy_n(before.out.begin() + 40 * 128, 64, after.out.begin() + 40 * 128);
  after.lse[80] = before.lse[80];
  EXPECT_TRUE(before == after);
}

// Deletes each barrier and wait in turn. The stream has blocks with many tiles and blocks without one.
TEST_F(PtxAttentionMma, EachBarrierAndWaitIsMissedWhenItIsDeleted) {
  Stream<BFloat16> s = Tree(10, {2, 1, 40, 0.2}, 200);
  for (int64_t key = 0; key < s.rows; ++key) s.visible_end[key] = std::min(s.visible_end[key], 130);
  const std::string& ptx = MmaPtx();
  Machine whole(ptx);
  const Forward want = RunMma(whole, s);
  ExpectNoReport(whole);
  int deleted = 0;
  for (const std::string instruction : {"bar.sync", "bar.warp.sync", "cp.async.wait_all"}) {
    const std::vector<size_t> places = PlacesOf(ptx, KernelOf(40), instruction);
    for (size_t i = 0; i < places.size(); ++i, ++deleted) {
      Machine m(Without(ptx, places[i]));
      m.options.max_reports = 1;
      const Forward got = RunMma(m, s);
      EXPECT_TRUE(!m.reports.empty() || got != want) << instruction << " " << i;
    }
  }
  EXPECT_GE(deleted, 9);
}

}  // namespace
}  // namespace ingot::standin::ptx
