// The attention kernels of src/kernels/cuda, compiled to PTX by nvcc, on the machine. Without fused multiplication and with the same exp2 they
// equal the fibers of tests/kernels/cuda to the bit.
#include <cmath>

#include "kernels/cuda/emulated_cuda.h"

// nvcc makes one instruction of it, ex2.approx.f32.
inline float CardExp2(float x) { return static_cast<float>(std::exp2(static_cast<double>(x))); }
#define exp2f CardExp2
#include "kernels/cuda/emulated_attention.h"
#undef exp2f

#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"

namespace ingot::standin::ptx {
namespace {

using kernels::Accumulator;
using kernels::AttentionShape;
using kernels::BFloat16;
using kernels::testing::Result;
using kernels::testing::Stream;
namespace cuda = kernels::cuda;

constexpr std::string_view kPrefix = "_ZN5ingot7kernels4cuda";

template <typename T>
std::string Code() {
  return std::is_same_v<T, double> ? "d" : std::is_same_v<T, float> ? "f" : "NS0_8BFloat16E";
}

// The mangled name of `kernel<T>(Args<T>)`.
template <typename T>
std::string Mangled(const std::string& kernel, const std::string& args) {
  return std::string(kPrefix) + std::to_string(kernel.size()) + kernel + "I" + Code<T>() + "EEvNS1_" +
         std::to_string(args.size()) + args + "IT_EE";
}

Launch Block(Dim3 grid) { return {grid, {cuda::kThreads, 1, 1}, 0}; }

Dim3 GridOf(size_t blocks, const cuda::Shape& s) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(s.kv_heads),
          static_cast<unsigned>((s.head_dim + cuda::kOutDims - 1) / cuda::kOutDims)};
}

template <typename T>
Result<T> OnMachine(Machine& m, const Stream<T>& s) {
  const kernels::AttentionSequence sequence = SequenceOf(s);
  const kernels::testing::EmulatedCall call(s.shape, {&sequence, 1}, 0, true);
  std::vector<std::byte> packed(call.plan.packed_bytes());
  call.plan.Pack(packed.data());
  const cuda::PlanView plan = call.plan.View(m.Put(packed));
  const T seven = kernels::testing::Narrow<T>(7);
  const std::vector<Accumulator<T>> sevens(s.rows * s.shape.heads, 7);
  T *q = m.Put(s.q), *k = m.Put(s.k), *v = m.Put(s.v), *grad_out = m.Put(s.grad_out);
  T *out = m.Put(std::vector<T>(s.q.size(), seven)), *grad_q = m.Put(std::vector<T>(s.q.size(), seven));
  const std::vector<Accumulator<T>> zeros(s.k.size());
  auto *sum_k = m.Put(zeros), *sum_v = m.Put(zeros);
  auto *lse = m.Put(sevens), *delta = m.Put(sevens), *sinks = m.Put(s.sinks);
  auto* grad_sinks = m.Put(std::vector<Accumulator<T>>(s.sinks.size(), 7));
  const cuda::ForwardArgs<T> f{call.shape, plan, q, k, v, sinks, out, lse};
  m.Run(Mangled<T>("ForwardKernel", "ForwardArgs"), Block(GridOf(call.plan.blocks().size(), call.shape)), f);
  const cuda::BackwardArgs<T> b{call.shape, plan,   q,     k,     v,          out,   grad_out, sinks,
                                lse,        grad_q, sum_k, sum_v, grad_sinks, delta, nullptr,  s.rows};
  const auto entries = static_cast<unsigned>(s.rows * s.shape.heads);
  m.Run(Mangled<T>("DeltaKernel", "BackwardArgs"), Block({(entries + 15) / 16, 1, 1}), b);
  m.Run(Mangled<T>("GradQKernel", "BackwardArgs"), Block(GridOf(call.plan.blocks().size(), call.shape)), b);
  m.Run(Mangled<T>("GradKeysKernel", "BackwardArgs"), Block(GridOf(call.plan.key_blocks().size(), call.shape)), b);
  if (grad_sinks != nullptr)
    m.Run(Mangled<T>("GradSinksKernel", "BackwardArgs"), Block({static_cast<unsigned>(s.shape.heads), 1, 1}), b);
  Result<T> r{m.Get(out, s.q.size()),    m.Get(grad_q, s.q.size()),        {}, {},
              m.Get(lse, sevens.size()), m.Get(grad_sinks, s.sinks.size())};
  for (const Accumulator<T> sum : m.Get(sum_k, s.k.size())) r.grad_k.push_back(kernels::testing::Narrow<T>(sum));
  for (const Accumulator<T> sum : m.Get(sum_v, s.k.size())) r.grad_v.push_back(kernels::testing::Narrow<T>(sum));
  return r;
}

template <typename T>
Result<T> OnFibers(const Stream<T>& s) {
  const T seven = kernels::testing::Narrow<T>(7);
  Result<T> r{std::vector<T>(s.q.size(), seven),
              std::vector<T>(s.q.size(), seven),
              std::vector<T>(s.k.size(), seven),
              std::vector<T>(s.k.size(), seven),
              {},
              {}};
  r.lse.assign(s.rows * s.shape.heads, 7);
  r.grad_sinks.assign(s.sinks.size(), 7);
  const kernels::AttentionSequence sequence = SequenceOf(s);
  kernels::AttentionForwardArgs<T> f;
  f.q = s.q.data(), f.k = s.k.data(), f.v = s.v.data(), f.sinks = s.Sinks();
  f.out = r.out.data(), f.lse = r.lse.data();
  kernels::testing::EmulatedForward<T>(s.shape, {&sequence, 1}, f, 0);
  kernels::AttentionBackwardArgs<T> b;
  b.rows = b.keys = s.rows;
  b.visible_end = s.Ends(), b.positions = s.Positions();
  b.q = f.q, b.k = f.k, b.v = f.v, b.sinks = f.sinks, b.out = f.out, b.lse = f.lse, b.grad_out = s.grad_out.data();
  b.grad_q = r.grad_q.data(), b.grad_k = r.grad_k.data(), b.grad_v = r.grad_v.data();
  b.grad_sinks = s.sinks.empty() ? nullptr : r.grad_sinks.data();
  kernels::testing::EmulatedBackward<T>(s.shape, b, 0);
  return r;
}

// Compiled once. `fused` is nvcc's default: a product and a sum round once.
const std::string& AttentionPtx(bool fused) {
  static std::string text[2];
  std::string& ptx = text[fused];
  if (ptx.empty()) ptx = CompilePtx(FindNvcc(), "src/kernels/cuda/attention.cu", fused ? "" : "-fmad=false");
  return ptx;
}

template <typename T>
Stream<T> Tree(uint64_t seed, AttentionShape shape, int64_t rows, bool sinks) {
  std::mt19937_64 rng(seed);
  Stream<T> s(rng, shape, rows, 0.1, 0.02);
  if (sinks) s.sinks = kernels::testing::RandomVector<Accumulator<T>>(rng, shape.heads, 2.0);
  return s;
}

template <typename T>
class PtxAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh cuda installs it";
  }
};
using Numbers = ::testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(PtxAttention, Numbers);

TYPED_TEST(PtxAttention, EqualsGatheredPathsWithoutReports) {
  using T = TypeParam;
  const AttentionShape shapes[] = {{2, 2, 32, 0.2}, {6, 1, 8, 0.3}, {2, 1, 136, 0.09, 70}};
  for (const AttentionShape& shape : shapes) {
    Machine m(AttentionPtx(true));
    m.options.seed = 3;
    const Stream<T> s = Tree<T>(1, shape, 70, shape.heads == 6);
    kernels::testing::ExpectClose(s, OnMachine(m, s));
    ExpectNoReport(m);
    EXPECT_GT(m.counters.instructions, 10'000u);
  }
}

// fp64 has exp2, exp and log of CUDA's library instead of the C library's.
TYPED_TEST(PtxAttention, EqualsFibersToTheBitButForFunctionsOfFp64) {
  using T = TypeParam;
  Machine m(AttentionPtx(false));
  const Stream<T> s = Tree<T>(2, {4, 2, 40, 0.2, 60}, 90, false);
  const Result<T> machine = OnMachine(m, s), fibers = OnFibers(s);
  ExpectNoReport(m);
  if constexpr (std::is_same_v<T, double>) {
    kernels::testing::ExpectClose(s, machine);
    EXPECT_LT(kernels::testing::RelativeError(machine.out, fibers.out), 1e-15);
  } else {
    EXPECT_TRUE(machine.out == fibers.out);
    EXPECT_TRUE(machine.lse == fibers.lse);
    EXPECT_TRUE(machine.grad_q == fibers.grad_q);
    EXPECT_TRUE(machine.grad_k == fibers.grad_k);
    EXPECT_TRUE(machine.grad_v == fibers.grad_v);
  }
}

// The least that scripts/kernel_work.py counts by hand: a row and head of two arrays of bf16, and a sum of fp32.
TEST(PtxAttentionBytes, DeltaKernelReadsAndWritesEachNumberOnce) {
  if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  Machine m(AttentionPtx(true));
  const Stream<BFloat16> s = Tree<BFloat16>(3, {4, 2, 128, 0.1}, 50, false);
  OnMachine(m, s);
  ExpectNoReport(m);
  EXPECT_EQ(m.global_bytes.at(Mangled<BFloat16>("DeltaKernel", "BackwardArgs")), 50u * 4 * (2 * 2 * 128 + 4));
}

// Where the barriers of a kernel stand in the text.
std::vector<size_t> BarriersOf(const std::string& ptx, const std::string& kernel) {
  std::vector<size_t> places;
  const size_t begin = ptx.find(".entry " + kernel), end = ptx.find("\n}\n", begin);
  for (size_t at = ptx.find("bar.sync", begin); at < end; at = ptx.find("bar.sync", at + 1)) places.push_back(at);
  return places;
}

// Whether a fault is reported, or the result is another.
bool Notices(const std::string& ptx, const Stream<float>& s, const Result<float>& want, int& reported) {
  Machine m(ptx);
  m.options.max_reports = 1;
  const Result<float> got = OnMachine(m, s);
  reported += !m.reports.empty();
  return !m.reports.empty() || got != want;
}

// The first two barriers of three kernels are followed by a third before anybody reads what they protect (PlaceRows, PlaceKeys). All others
// are missed when they are deleted.
TEST(PtxAttentionBarriers, EachIsMissedWhenItIsDeleted) {
  if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh cuda installs it";
  const Stream<float> s = Tree<float>(5, {2, 1, 40, 0.2, 60}, 70, true);
  const std::string& ptx = AttentionPtx(true);
  Machine whole(ptx);
  const Result<float> want = OnMachine(whole, s);
  ExpectNoReport(whole);
  int deleted = 0, reported = 0;
  const struct {
    const char *kernel, *args;
    size_t doubled;
  } rows[] = {{"ForwardKernel", "ForwardArgs", 2},
              {"GradQKernel", "BackwardArgs", 2},
              {"GradKeysKernel", "BackwardArgs", 2},
              {"GradSinksKernel", "BackwardArgs", 0}};
  for (const auto& row : rows) {
    const std::vector<size_t> places = BarriersOf(ptx, Mangled<float>(row.kernel, row.args));
    deleted += static_cast<int>(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(Notices(Without(ptx, places[i]), s, want, reported), i >= row.doubled)
          << row.kernel << ", barrier " << i;
    }
  }
  EXPECT_GT(deleted, 20);
  EXPECT_EQ(reported, deleted - 6);
}

}  // namespace
}  // namespace ingot::standin::ptx
