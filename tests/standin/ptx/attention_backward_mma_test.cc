// The backward kernels with tensor cores (src/kernels/cuda/attention_backward_mma.cuh), compiled to PTX by nvcc, on the
// machine: gradients against fp64, equal bits for every order and every cut of the queries, bank conflicts, and each
// barrier and wait.
#include <algorithm>
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
using kernels::testing::RandomVector;
using kernels::testing::ReferenceResult;
using kernels::testing::RelativeError;
using kernels::testing::Stream;
namespace cuda = kernels::cuda;

// Each term of a sum has a probability and the gradient of its score, rounded to bf16 (at most 2^-9, 2^-9 / sqrt(3) in
// the mean), and so have the outputs from which delta is computed. GradQMmaKernel also rounds its result.
constexpr double kTolerance = 4e-3;
// The same terms in another order.
constexpr double kOrderTolerance = 2e-6;

const std::string& BackwardPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/attention_backward_mma.cu", "");
  return text;
}

std::string KernelOf(const std::string& name, int64_t width) {
  return "_ZN5ingot7kernels4cuda" + std::to_string(name.size()) + name + "ILi" + (width <= 64 ? "64" : "128") +
         "EEEvNS1_12BackwardArgsINS0_8BFloat16EEE";
}
constexpr const char* kKeySum = "_ZN5ingot7kernels4cuda15KeySumMmaKernelENS1_12BackwardArgsINS0_8BFloat16EEE";

// sizeof(GradQMemory<width>) and sizeof(GradKeysMemory<width>).
size_t QBytes(int64_t width) { return width <= 64 ? 35184 : 67952; }
size_t KeysBytes(int64_t width) { return width <= 64 ? 18952 : 35336; }

struct Gradients {
  std::vector<BFloat16> q;
  std::vector<float> k, v;
  bool operator==(const Gradients&) const = default;
};

struct Case {
  Stream<BFloat16> s;
  ReferenceResult want;
  std::vector<BFloat16> out;
  std::vector<float> lse, delta;

  explicit Case(Stream<BFloat16> stream) : s(std::move(stream)) {
    want = kernels::testing::GatheredPaths<BFloat16>({s.shape, s.visible_end, 0, s.sinks, s.q, s.k, s.v, s.grad_out});
    for (const double x : want.out) out.push_back(kernels::ToBFloat16(static_cast<float>(x)));
    lse.assign(want.lse.begin(), want.lse.end());
    for (size_t entry = 0; entry < lse.size(); ++entry) {
      float sum = 0;
      for (int64_t d = 0; d < s.shape.head_dim; ++d) {
        const size_t at = entry * s.shape.head_dim + d;
        sum += kernels::ToFloat(out[at]) * kernels::ToFloat(s.grad_out[at]);
      }
      delta.push_back(sum);
    }
  }
};

// Adds the gradients of the queries [first, last) to `sums`, and returns their own.
void Add(Machine& m, const Case& c, int64_t first, int64_t last, int64_t most_blocks, Gradients& sums) {
  const AttentionShape& s = c.s.shape;
  AttentionSequence sequence = SequenceOf(c.s);
  sequence.q_offset = first;
  sequence.q_count = last - first;
  sequence.key_count = last;
  const cuda::AttentionPlan plan(s, {&sequence, 1}, 0, true, cuda::kTileRows, most_blocks);
  std::vector<std::byte> packed(plan.packed_bytes());
  plan.Pack(packed.data());
  const int64_t q_row = s.heads * s.head_dim, k_row = s.kv_heads * s.head_dim;
  const cuda::Shape shape{s.heads, s.kv_heads, s.head_dim, s.heads / s.kv_heads, s.window, 0, q_row,
                          k_row,   k_row,      s.scale};
  EXPECT_TRUE(cuda::UsesMma<BFloat16>(shape));
  const auto part = [&](const auto& all, int64_t row) {
    return m.Put(std::vector(all.begin() + first * row, all.begin() + last * row));
  };
  BFloat16* const grad_q = m.Put(std::vector<BFloat16>((last - first) * q_row, kernels::ToBFloat16(7)));
  float *const sum_k = m.Put(sums.k), *const sum_v = m.Put(sums.v);
  const cuda::BackwardArgs<BFloat16> args{
      shape,
      plan.View(m.Put(packed)),
      part(c.s.q, q_row),
      m.Put(c.s.k),
      m.Put(c.s.v),
      part(c.out, q_row),
      part(c.s.grad_out, q_row),
      nullptr,
      part(c.lse, s.heads),
      grad_q,
      sum_k,
      sum_v,
      nullptr,
      part(c.delta, s.heads),
      m.Put(std::vector<float>(plan.slots() * k_row * 2 * cuda::kTileKeys, NAN)),
      last - first,
  };
  const auto grid = [&](size_t blocks) {
    return Dim3{static_cast<unsigned>(blocks), static_cast<unsigned>(s.kv_heads), 1};
  };
  const Dim3 threads{128, 1, 1};
  m.Run(KernelOf("GradQMmaKernel", s.head_dim), {grid(plan.blocks().size()), threads, QBytes(s.head_dim)}, args);
  m.Run(KernelOf("GradKeysMmaKernel", s.head_dim), {grid(plan.key_blocks().size()), threads, KeysBytes(s.head_dim)},
        args);
  if (!plan.key_sums().empty()) m.Run(kKeySum, {grid(plan.key_sums().size()), threads, 0}, args);
  const std::vector<BFloat16> own = m.Get(grad_q, (last - first) * q_row);
  std::copy(own.begin(), own.end(), sums.q.begin() + first * q_row);
  sums.k = m.Get(sum_k, sums.k.size());
  sums.v = m.Get(sum_v, sums.v.size());
}

Gradients NoGradients(const Case& c) {
  return {std::vector<BFloat16>(c.s.q.size()), std::vector<float>(c.s.k.size()), std::vector<float>(c.s.v.size())};
}

Gradients RunBackward(Machine& m, const Case& c, int64_t most_blocks = cuda::kMostKeyBlocks) {
  Gradients sums = NoGradients(c);
  Add(m, c, 0, c.s.rows, most_blocks, sums);
  return sums;
}

std::vector<double> Doubles(const std::vector<float>& x) { return {x.begin(), x.end()}; }

void ExpectClose(const Case& c, const Gradients& got) {
  EXPECT_LT(RelativeError(got.q, c.want.grad_q), kTolerance);
  EXPECT_LT(RelativeError(Doubles(got.k), c.want.grad_k), kTolerance);
  EXPECT_LT(RelativeError(Doubles(got.v), c.want.grad_v), kTolerance);
}

void ExpectSameSums(const Gradients& got, const Gradients& want) {
  EXPECT_TRUE(got.q == want.q);
  EXPECT_LT(RelativeError(Doubles(got.k), Doubles(want.k)), kOrderTolerance);
  EXPECT_LT(RelativeError(Doubles(got.v), Doubles(want.v)), kOrderTolerance);
}

Case Tree(uint64_t seed, const AttentionShape& shape, int64_t rows, bool sinks = false) {
  std::mt19937_64 rng(seed);
  Stream<BFloat16> s(rng, shape, rows, 0.05, 0.01);
  if (sinks) s.sinks = RandomVector<float>(rng, shape.heads, 2.0);
  return Case(std::move(s));
}

class PtxBackwardMma : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }
};

// A random forest, with heads, groups, widths, windows, sinks, and signs of the scale by the seed.
void CheckForest(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto below = [&rng](uint64_t n) { return static_cast<int64_t>(rng() % n); };
  const int64_t kv_heads = 1 + below(2), group = 1 + below(4), width = 8 * (1 + below(16));
  AttentionShape shape{kv_heads * group, kv_heads, width, 1.2 / std::sqrt(static_cast<double>(width))};
  if (seed % 3 == 0) shape.window = 1 + below(150);
  if (seed % 7 == 0) shape.scale = -shape.scale;
  if (seed % 13 == 0) shape.scale = 0;
  const Case c = Tree(seed, shape, 1 + below(200), seed % 2 == 0);
  Machine m(BackwardPtx());
  m.options.seed = seed;
  m.options.arrival = seed % 2 == 0 ? Arrival::kLate : Arrival::kRandom;
  m.options.sum = seed % 4 < 2 ? SumOrder::kAscending : SumOrder::kTensorCore;
  m.options.approximate = seed % 5 == 0;
  SCOPED_TRACE("forest " + std::to_string(seed) + ": heads " + std::to_string(shape.heads) + "/" +
               std::to_string(kv_heads) + ", width " + std::to_string(width) + ", rows " + std::to_string(c.s.rows) +
               ", window " + std::to_string(shape.window));
  ExpectClose(c, RunBackward(m, c, 1 + below(4)));
  ExpectNoReport(m);
  EXPECT_EQ(m.counters.wavefronts, m.counters.ideal_wavefronts) << "bank conflicts";
}

TEST_F(PtxBackwardMma, EqualsTheDefinitionOnRandomForests) {
  const auto trials = static_cast<uint64_t>(Trials(8, 200));
  for (uint64_t seed = 1; seed <= trials && !HasFailure(); ++seed) CheckForest(seed);
}

TEST_F(PtxBackwardMma, GivesTheSameBitsInEveryOrder) {
  const Case c = Tree(21, {4, 2, 72, 0.12}, 150);
  Machine first(BackwardPtx());
  const Gradients want = RunBackward(first, c, 2);
  for (const Arrival arrival : {Arrival::kEarly, Arrival::kRandom}) {
    Machine m(BackwardPtx());
    m.options.seed = 5;
    m.options.arrival = arrival;
    EXPECT_TRUE(RunBackward(m, c, 2) == want);
    ExpectNoReport(m);
  }
}

// Partial sums change the order of the terms of a sum, and nothing else.
TEST_F(PtxBackwardMma, AddsTheSameTermsHoweverListsAreCut) {
  const Case c = Tree(22, {6, 1, 40, 0.2, 90}, 200, true);
  Machine m(BackwardPtx());
  const Gradients want = RunBackward(m, c, 0);
  for (const int64_t most : {1, 2, 5}) ExpectSameSums(RunBackward(m, c, most), want);
  ExpectNoReport(m);
}

// As the trainer splits a forest: the last queries first, each call adds to the gradients of the keys that it sees.
TEST_F(PtxBackwardMma, AddsPiecesWithoutRounding) {
  const Case c = Tree(23, {4, 2, 64, 0.15}, 190);
  Machine m(BackwardPtx());
  const Gradients want = RunBackward(m, c, 0);
  ExpectClose(c, want);
  Gradients sums = NoGradients(c);
  Add(m, c, 150, 190, 0, sums);
  Add(m, c, 61, 150, 3, sums);
  Add(m, c, 0, 61, 0, sums);
  ExpectSameSums(sums, want);
  ExpectNoReport(m);
}

// A row that sees no key, and keys that no row sees.
TEST_F(PtxBackwardMma, RowsWithoutKeysHaveNoGradient) {
  std::mt19937_64 rng(24);
  Stream<BFloat16> s(rng, {2, 1, 48, 0.15}, 200, 0, 0);
  for (int64_t key = 0; key < s.rows; ++key) s.visible_end[key] = key < 130 ? 130 : static_cast<int32_t>(key);
  s.positions = kernels::testing::Depths(s.visible_end);
  const Case c(std::move(s));
  Machine m(BackwardPtx());
  const Gradients got = RunBackward(m, c);
  ExpectClose(c, got);
  ExpectNoReport(m);
  const auto zero = [](auto x) { return kernels::testing::Wide(x) == 0; };
  EXPECT_TRUE(std::all_of(got.q.begin() + 130 * 2 * 48, got.q.end(), zero));
  EXPECT_TRUE(std::all_of(got.k.begin() + 130 * 48, got.k.end(), [](float x) { return x == 0; }));
}

// Bytes counted by hand: a block reads its own rows once, and the others once per pair of row block and tile.
TEST_F(PtxBackwardMma, ReadsEachTileOncePerBlock) {
  const Case c = Tree(26, {2, 1, 128, 0.1}, 300);
  const AttentionSequence sequence = SequenceOf(c.s);
  const cuda::AttentionPlan plan(c.s.shape, {&sequence, 1}, 0, true);
  uint64_t pairs = 0;
  for (const cuda::KeyBlock& keys : plan.key_blocks()) pairs += plan.Length(keys);
  Machine m(BackwardPtx());
  RunBackward(m, c, 0);
  ExpectNoReport(m);
  constexpr uint64_t kRows = 64 * 128 * sizeof(BFloat16), kSums = 2 * kRows;
  const uint64_t q_bytes = (2 * pairs + 3 * plan.blocks().size()) * kRows;
  const uint64_t key_bytes = 2 * (pairs + plan.key_blocks().size()) * kRows + 4 * plan.key_blocks().size() * kSums;
  for (const auto& [name, least] : {std::pair("GradQMmaKernel", q_bytes), {"GradKeysMmaKernel", key_bytes}}) {
    const auto bytes = static_cast<double>(m.global_bytes.at(KernelOf(name, 128)));
    EXPECT_LT(bytes, 1.05 * static_cast<double>(least)) << name;
    EXPECT_GT(bytes, 0.85 * static_cast<double>(least)) << name;  // the last block and the last tile are not full
  }
}

// Deletes each barrier and wait in turn. The stream has blocks with several tiles and blocks without one.
TEST_F(PtxBackwardMma, EachBarrierAndWaitIsMissedWhenItIsDeleted) {
  std::mt19937_64 rng(25);
  Stream<BFloat16> s(rng, {2, 1, 40, 0.2}, 200, 0.05, 0.01);
  for (int64_t key = 0; key < s.rows; ++key) s.visible_end[key] = std::min(s.visible_end[key], 130);
  s.positions = kernels::testing::Depths(s.visible_end);
  const Case c(std::move(s));
  const std::string& ptx = BackwardPtx();
  Machine whole(ptx);
  const Gradients want = RunBackward(whole, c, 2);
  ExpectNoReport(whole);
  int deleted = 0;
  for (const char* const name : {"GradQMmaKernel", "GradKeysMmaKernel"}) {
    for (const std::string instruction : {"bar.sync", "cp.async.wait_all"}) {
      const std::vector<size_t> places = PlacesOf(ptx, KernelOf(name, 40), instruction);
      for (size_t i = 0; i < places.size(); ++i, ++deleted) {
        Machine m(Without(ptx, places[i]));
        m.options.max_reports = 1;
        const Gradients got = RunBackward(m, c, 2);
        EXPECT_TRUE(!m.reports.empty() || got != want) << name << ": " << instruction << " " << i;
      }
    }
  }
  EXPECT_GE(deleted, 12);
}

}  // namespace
}  // namespace ingot::standin::ptx
