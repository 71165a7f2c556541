// The kernels of a layer's parts between its products, on the machine: their error against fp64, and bits of a row that
// depend only on the row.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/layers_args.h"
#include "kernels/layers.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::Accumulator;
using kernels::BFloat16;
namespace cuda = kernels::cuda;

const std::string& LayersPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/layers.cu", "");
  return text;
}

template <typename T>
std::string NameOf(const std::string& kernel, const std::string& args) {
  const std::string type = std::is_same_v<T, float> ? "f" : std::is_same_v<T, double> ? "d" : "NS0_8BFloat16E";
  return "_ZN5ingot7kernels4cuda" + std::to_string(kernel.size()) + kernel + "I" + type + "EEvNS1_" +
         std::to_string(args.size()) + args + "IT_EE";
}

Launch Grid(int64_t blocks, unsigned threads, size_t shared_bytes = 0) {
  return {{static_cast<unsigned>(blocks), 1, 1}, {threads, 1, 1}, shared_bytes};
}

double Wide(double x) { return x; }
double Wide(BFloat16 x) { return double{kernels::ToFloat(x)}; }
template <typename T>
std::vector<double> Widened(const std::vector<T>& from) {
  std::vector<double> wide;
  for (const T& x : from) wide.push_back(Wide(x));
  return wide;
}

template <typename T>
std::vector<T> Random(std::mt19937_64& rng, int64_t count) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<T> values(count);
  for (T& x : values) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      x = kernels::ToBFloat16(normal(rng));
    } else {
      x = static_cast<T>(normal(rng));
    }
  }
  return values;
}

// Rows [begin, begin + count) of `width` numbers.
template <typename T>
std::vector<T> RowsOf(const std::vector<T>& all, int64_t begin, int64_t count, int64_t width) {
  if (all.empty()) return {};
  return {all.begin() + begin * width, all.begin() + (begin + count) * width};
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// The relative root mean square error.
template <typename T>
double ErrorOf(const std::vector<T>& got, const std::vector<double>& want) {
  double error = 0, size = std::numeric_limits<double>::min();
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(Wide(got[i]) - want[i], 2);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

// bf16 rounds a result up to four times, each by at most 2^-9. fp32 and fp64 add up to a few ten numbers in a chain,
// and their function of exp has an error of two units.
template <typename T>
constexpr double kTolerance = std::is_same_v<T, BFloat16> ? 0x1p-7
                              : std::is_same_v<T, float>  ? 0x1p-21
                                                          : 0x1p-49;

// `values` after `skip` numbers, so that rows do not begin at a multiple of 16 bytes.
template <typename T>
T* PutAfter(Machine& m, std::vector<T> values, int64_t skip) {
  if (values.empty()) return nullptr;
  values.insert(values.begin(), skip, T{});
  return m.Put(values) + skip;
}

// ---- RMSNorm

template <typename T>
struct Norm {
  static constexpr double kEps = 1e-3;
  int64_t rows = 0, n = 0;
  std::vector<T> x, plus, by_sum, grad, weight;  // plus and by_sum may be empty

  Norm(uint64_t seed, int64_t rows, int64_t n, bool with_sum) : rows(rows), n(n) {
    std::mt19937_64 rng(seed);
    for (std::vector<T>* v : {&x, &grad}) *v = Random<T>(rng, rows * n);
    weight = Random<T>(rng, n);
    if (!with_sum) return;
    for (std::vector<T>* v : {&plus, &by_sum}) *v = Random<T>(rng, rows * n);
  }
  Norm Part(int64_t begin, int64_t count) const {
    Norm part = *this;
    part.rows = count;
    for (std::vector<T>* v : {&part.x, &part.plus, &part.by_sum, &part.grad}) *v = RowsOf(*v, begin, count, n);
    return part;
  }
};

template <typename T>
struct NormResult {
  std::vector<T> sum, y, grad_x, grad_weight;
  std::vector<Accumulator<T>> inverse;
};

template <typename T>
std::vector<T> SumParts(Machine& m, int64_t count, int64_t n, const Accumulator<T>* parts) {
  T* const to = m.Put(std::vector<T>(n));
  m.Run(NameOf<T>("SumPartsKernel", "SumPartsArgs"), Grid(cuda::Ceil(n, 32), cuda::kSumThreads),
        cuda::SumPartsArgs<T>{count, n, parts, to});
  return m.Get(to, n);
}

template <typename T>
NormResult<T> Compute(Machine& m, const Norm<T>& c, int64_t skip = 0) {
  using Acc = Accumulator<T>;
  const auto count = static_cast<size_t>(c.rows * c.n);
  const std::vector<T> nothing(count);
  cuda::NormArgs<T> args{};
  args.rows = c.rows;
  args.n = c.n;
  args.x = PutAfter(m, c.x, skip);
  args.plus = PutAfter(m, c.plus, skip);
  args.sum = c.plus.empty() ? nullptr : PutAfter(m, nothing, skip);
  args.weight = PutAfter(m, c.weight, skip);
  args.eps = static_cast<Acc>(Norm<T>::kEps);
  args.y = PutAfter(m, nothing, skip);
  args.inverse = m.Put(std::vector<Acc>(c.rows));
  m.Run(NameOf<T>("NormKernel", "NormArgs"), Grid(c.rows, cuda::NormThreads<T>(c.n)), args);
  cuda::NormGradientArgs<T> back{};
  back.rows = c.rows;
  back.n = c.n;
  back.grad = PutAfter(m, c.grad, skip);
  back.by_sum = PutAfter(m, c.by_sum, skip);
  back.x = args.plus == nullptr ? args.x : args.sum;
  back.weight = args.weight;
  back.inverse = args.inverse;
  back.grad_x = PutAfter(m, nothing, skip);
  back.parts = m.Put(std::vector<Acc>(back.blocks() * c.n, NAN));
  m.Run(NameOf<T>("NormGradientKernel", "NormGradientArgs"), Grid(back.blocks(), cuda::NormThreads<T>(c.n)), back);
  return {m.Get(back.x, count), m.Get(args.y, count), m.Get(back.grad_x, count),
          SumParts<T>(m, back.blocks(), c.n, back.parts), m.Get(args.inverse, c.rows)};
}

// The CPU's results in fp64, whose gradients kernels/layers_test.cc compares with differences. The sum has the type's
// rounding.
template <typename T>
NormResult<double> Want(const Norm<T>& c, const std::vector<T>& sum) {
  NormResult<double> want;
  const std::vector<double> weight = Widened(c.weight), past = Widened(c.by_sum);
  want.sum = Widened(c.x);
  for (size_t i = 0; i < c.plus.size(); ++i) want.sum[i] += Wide(c.plus[i]);
  const std::vector<double> s = Widened(sum);
  want.y = want.grad_x = std::vector<double>(s.size());
  want.grad_weight.resize(c.n);
  want.inverse.resize(c.rows);
  const kernels::RmsNormArgs<double> args{
      .x = s.data(), .weight = weight.data(), .eps = Norm<T>::kEps, .rows = c.rows, .n = c.n};
  kernels::RmsNorm<double>(args, want.y.data(), want.inverse.data(), kernels::Serial);
  kernels::RmsNormBackward<double>(args, Widened(c.grad).data(), past.empty() ? nullptr : past.data(),
                                   want.inverse.data(), want.grad_x.data(), want.grad_weight.data(), kernels::Serial);
  return want;
}

// ---- heads

constexpr int64_t kPositions = 50;

template <typename T>
struct Heads {
  static constexpr double kEps = 1e-3;
  int64_t rows = 0, heads = 0, depth = 0;
  std::vector<T> x, grad, weight, cos, sin;  // weight may be empty
  std::vector<int64_t> positions;

  Heads(uint64_t seed, int64_t rows, int64_t heads, int64_t depth, bool norm)
      : rows(rows), heads(heads), depth(depth), cos(kPositions * depth / 2), sin(cos.size()) {
    std::mt19937_64 rng(seed);
    for (std::vector<T>* v : {&x, &grad}) *v = Random<T>(rng, rows * heads * depth);
    if (norm) weight = Random<T>(rng, depth);
    for (std::vector<T>* v : {&cos, &sin}) *v = Random<T>(rng, kPositions * depth / 2);
    for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int64_t>(rng() % kPositions));
  }
  Heads Part(int64_t begin, int64_t count) const {
    Heads part = *this;
    part.rows = count;
    for (std::vector<T>* v : {&part.x, &part.grad}) *v = RowsOf(*v, begin, count, heads * depth);
    part.positions = RowsOf(positions, begin, count, 1);
    return part;
  }
};

template <typename T>
struct HeadsResult {
  std::vector<T> y, grad_x, grad_weight;
  std::vector<Accumulator<T>> inverse;
};

template <typename T>
HeadsResult<T> Compute(Machine& m, const Heads<T>& c, int64_t skip = 0) {
  using Acc = Accumulator<T>;
  const std::vector<T> nothing(c.x.size());
  const bool norm = !c.weight.empty();
  cuda::HeadArgs<T> args{};
  args.rows = c.rows;
  args.heads = c.heads;
  args.depth = c.depth;
  args.x = PutAfter(m, c.x, skip);
  args.weight = PutAfter(m, c.weight, skip);
  args.eps = static_cast<Acc>(Heads<T>::kEps);
  args.cos = PutAfter(m, c.cos, skip);
  args.sin = PutAfter(m, c.sin, skip);
  args.position = m.Put(c.positions);
  args.positions = kPositions;
  args.y = PutAfter(m, nothing, skip);
  if (norm) args.inverse = m.Put(std::vector<Acc>(c.rows * c.heads));
  m.Run(NameOf<T>("HeadKernel", "HeadArgs"), Grid(args.blocks(), cuda::kHeadThreads), args);
  cuda::HeadGradientArgs<T> back{};
  back.rows = c.rows;
  back.heads = c.heads;
  back.depth = c.depth;
  back.grad = PutAfter(m, c.grad, skip);
  if (norm) back.x = args.x;
  back.weight = args.weight;
  back.inverse = args.inverse;
  back.cos = args.cos;
  back.sin = args.sin;
  back.position = args.position;
  back.positions = kPositions;
  back.grad_x = PutAfter(m, nothing, skip);
  if (norm) back.parts = m.Put(std::vector<Acc>(back.blocks() * c.depth, NAN));
  m.Run(NameOf<T>("HeadGradientKernel", "HeadGradientArgs"),
        Grid(back.blocks(), cuda::kHeadThreads, back.shared_bytes()), back);
  HeadsResult<T> result{m.Get(args.y, nothing.size()), m.Get(back.grad_x, nothing.size()), {}, {}};
  if (norm) {
    result.grad_weight = SumParts<T>(m, back.blocks(), c.depth, back.parts);
    result.inverse = m.Get(args.inverse, c.rows * c.heads);
  }
  return result;
}

template <typename T>
HeadsResult<double> Want(const Heads<T>& c) {
  const std::vector<double> x = Widened(c.x), grad = Widened(c.grad), weight = Widened(c.weight), cos = Widened(c.cos),
                            sin = Widened(c.sin);
  HeadsResult<double> want;
  want.y = want.grad_x = std::vector<double>(x.size());
  want.grad_weight.resize(weight.size());
  want.inverse.resize(weight.empty() ? 0 : c.rows * c.heads);
  const kernels::RotateArgs<double> args{x.data(),       weight.empty() ? nullptr : weight.data(),
                                         Heads<T>::kEps, cos.data(),
                                         sin.data(),     c.positions.data(),
                                         c.rows,         c.heads,
                                         c.depth};
  kernels::NormRotate<double>(args, want.y.data(), want.inverse.data(), kernels::Serial);
  kernels::NormRotateBackward<double>(args, grad.data(), want.inverse.data(), want.grad_x.data(),
                                      want.grad_weight.data(), kernels::Serial);
  return want;
}

// ---- SwiGLU

template <typename T>
struct SwiGluCase {
  std::vector<T> grad, gate, up;

  SwiGluCase(uint64_t seed, int64_t count) {
    std::mt19937_64 rng(seed);
    for (std::vector<T>* v : {&grad, &gate, &up}) *v = Random<T>(rng, count);
  }
};

template <typename T>
struct SwiGluResult {
  std::vector<T> y, grad_gate, grad_up;
};

template <typename T>
SwiGluResult<T> Compute(Machine& m, const SwiGluCase<T>& c, int64_t skip = 0) {
  const auto count = static_cast<int64_t>(c.gate.size());
  const std::vector<T> nothing(c.gate.size());
  const cuda::SwiGluArgs<T> args{count, PutAfter(m, c.gate, skip), PutAfter(m, c.up, skip), PutAfter(m, nothing, skip)};
  m.Run(NameOf<T>("SwiGluKernel", "SwiGluArgs"), Grid(args.blocks(), cuda::kSwiGluThreads), args);
  const cuda::SwiGluGradientArgs<T> back{count,   PutAfter(m, c.grad, skip),  args.gate,
                                         args.up, PutAfter(m, nothing, skip), PutAfter(m, nothing, skip)};
  m.Run(NameOf<T>("SwiGluGradientKernel", "SwiGluGradientArgs"), Grid(back.blocks(), cuda::kSwiGluThreads), back);
  return {m.Get(args.y, nothing.size()), m.Get(back.grad_gate, nothing.size()), m.Get(back.grad_up, nothing.size())};
}

template <typename T>
SwiGluResult<double> Want(const SwiGluCase<T>& c) {
  const std::vector<double> grad = Widened(c.grad), gate = Widened(c.gate), up = Widened(c.up);
  SwiGluResult<double> want;
  want.y = want.grad_gate = want.grad_up = std::vector<double>(gate.size());
  const auto count = static_cast<int64_t>(gate.size());
  kernels::SwiGlu<double>(gate.data(), up.data(), count, want.y.data(), kernels::Serial);
  kernels::SwiGluBackward<double>(grad.data(), gate.data(), up.data(), count, want.grad_gate.data(),
                                  want.grad_up.data(), kernels::Serial);
  return want;
}

// ---- tests

constexpr int64_t kMostRows = 300;

// Numbers of rows: a few, or under INGOT_SLOW_TESTS all.
std::vector<int64_t> RowCounts() {
  std::vector<int64_t> counts{1, 2, 15, 17, 65};
  if (Trials(0, 1) == 0) return counts;
  counts.clear();
  for (int64_t rows = 1; rows <= kMostRows; ++rows) counts.push_back(rows);
  return counts;
}

class PtxLayers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }

  template <typename T>
  void ExpectNorms() {
    int trial = 0;
    // Widths of part of a vector, a warp, a block, and more than a block holds.
    for (const int64_t n : {1, 7, 24, 64, 301, 1000, 2048, 9001}) {
      const bool with_sum = ++trial % 2 == 1;
      const Norm<T> c(trial, n > 1000 ? 3 : 37, n, with_sum);
      Machine m(LayersPtx());
      m.options.seed = trial;
      m.options.approximate = trial % 3 == 0;
      const NormResult<T> got = Compute(m, c);
      const NormResult<double> want = Want(c, got.sum);
      const auto near = [&](const char* what, double error) {
        EXPECT_LT(error, kTolerance<T>) << what << " of width " << n;
      };
      near("the sum", ErrorOf(got.sum, want.sum));
      near("the result", ErrorOf(got.y, want.y));
      near("the factor", ErrorOf(got.inverse, want.inverse));
      near("the gradient", ErrorOf(got.grad_x, want.grad_x));
      near("the weights' gradient", ErrorOf(got.grad_weight, want.grad_weight));
      ExpectNoReport(m);
    }
  }

  template <typename T>
  void ExpectHeads() {
    int trial = 0;
    for (const int64_t depth : {2, 10, 64, 128, 130, 256, 6}) {
      ++trial;
      const Heads<T> c(trial, depth > 100 ? 9 : 34, trial % 4 + 1, depth, trial % 3 != 0);
      Machine m(LayersPtx());
      m.options.seed = trial;
      const HeadsResult<T> got = Compute(m, c);
      const HeadsResult<double> want = Want(c);
      const auto near = [&](const char* what, double error) {
        EXPECT_LT(error, kTolerance<T>) << what << " of depth " << depth;
      };
      near("the result", ErrorOf(got.y, want.y));
      near("the factor", ErrorOf(got.inverse, want.inverse));
      near("the gradient", ErrorOf(got.grad_x, want.grad_x));
      near("the weights' gradient", ErrorOf(got.grad_weight, want.grad_weight));
      ExpectNoReport(m);
    }
  }

  template <typename T>
  void ExpectSwiGlus() {
    for (const int64_t count : {1, 9, 4096, 5003}) {
      const SwiGluCase<T> c(count, count);
      Machine m(LayersPtx());
      m.options.approximate = count % 2 == 0;
      const SwiGluResult<T> got = Compute(m, c);
      const SwiGluResult<double> want = Want(c);
      EXPECT_LT(ErrorOf(got.y, want.y), kTolerance<T>) << count;
      EXPECT_LT(ErrorOf(got.grad_gate, want.grad_gate), kTolerance<T>) << count;
      EXPECT_LT(ErrorOf(got.grad_up, want.grad_up), kTolerance<T>) << count;
      ExpectNoReport(m);
    }
  }

  // Computes each row alone, and then the first rows of the same input.
  template <typename T>
  void ExpectRowsAlone() {
    const std::vector<int64_t> counts = RowCounts();
    const int64_t most = counts.back(), n = 45, heads = 2, depth = 10;
    const Norm<T> norm(1, most, n, true);
    const Heads<T> turned(2, most, heads, depth, true);
    std::vector<NormResult<T>> norms;
    std::vector<HeadsResult<T>> turns;
    Machine m(LayersPtx());
    for (int64_t r = 0; r < most; ++r) {
      norms.push_back(Compute(m, norm.Part(r, 1)));
      turns.push_back(Compute(m, turned.Part(r, 1)));
    }
    for (const int64_t rows : counts) {
      m.options.seed = rows;
      const NormResult<T> all = Compute(m, norm.Part(0, rows));
      const HeadsResult<T> all_turned = Compute(m, turned.Part(0, rows));
      for (int64_t r = 0; r < rows; ++r) {
        const bool same =
            SameBits(RowsOf(all.sum, r, 1, n), norms[r].sum) && SameBits(RowsOf(all.y, r, 1, n), norms[r].y) &&
            SameBits(RowsOf(all.grad_x, r, 1, n), norms[r].grad_x) && all.inverse[r] == norms[r].inverse[0];
        const bool same_turned = SameBits(RowsOf(all_turned.y, r, 1, heads * depth), turns[r].y) &&
                                 SameBits(RowsOf(all_turned.grad_x, r, 1, heads * depth), turns[r].grad_x);
        EXPECT_TRUE(same && same_turned) << "row " << r << " of " << rows;
      }
    }
    ExpectNoReport(m);
  }

  // The same rows at addresses that allow no wide access.
  template <typename T>
  void ExpectAnyAlignment() {
    for (const int64_t n : {40, 256, 1024}) {
      const Norm<T> norm(n, 5, n, true);
      const Heads<T> turned(n, 3, 2, n, true);
      const SwiGluCase<T> gates(n, 5 * n);
      Machine aligned(LayersPtx()), shifted(LayersPtx());
      const NormResult<T> a = Compute(aligned, norm), b = Compute(shifted, norm, 1);
      EXPECT_TRUE(SameBits(a.sum, b.sum) && SameBits(a.y, b.y) && SameBits(a.grad_x, b.grad_x) &&
                  SameBits(a.grad_weight, b.grad_weight))
          << n;
      const HeadsResult<T> c = Compute(aligned, turned), d = Compute(shifted, turned, 1);
      EXPECT_TRUE(SameBits(c.y, d.y) && SameBits(c.grad_x, d.grad_x) && SameBits(c.grad_weight, d.grad_weight)) << n;
      const SwiGluResult<T> e = Compute(aligned, gates), f = Compute(shifted, gates, 1);
      EXPECT_TRUE(SameBits(e.y, f.y) && SameBits(e.grad_gate, f.grad_gate) && SameBits(e.grad_up, f.grad_up)) << n;
      ExpectNoReport(aligned);
      ExpectNoReport(shifted);
    }
  }
};

TEST_F(PtxLayers, NormsHaveTheErrorOfTheirTypeInFp32) { ExpectNorms<float>(); }
TEST_F(PtxLayers, NormsHaveTheErrorOfTheirTypeInFp64) { ExpectNorms<double>(); }
TEST_F(PtxLayers, NormsHaveTheErrorOfTheirTypeInBf16) { ExpectNorms<BFloat16>(); }
TEST_F(PtxLayers, HeadsHaveTheErrorOfTheirTypeInFp32) { ExpectHeads<float>(); }
TEST_F(PtxLayers, HeadsHaveTheErrorOfTheirTypeInFp64) { ExpectHeads<double>(); }
TEST_F(PtxLayers, HeadsHaveTheErrorOfTheirTypeInBf16) { ExpectHeads<BFloat16>(); }
TEST_F(PtxLayers, SwiGluHasTheErrorOfItsTypeInFp32) { ExpectSwiGlus<float>(); }
TEST_F(PtxLayers, SwiGluHasTheErrorOfItsTypeInFp64) { ExpectSwiGlus<double>(); }
TEST_F(PtxLayers, SwiGluHasTheErrorOfItsTypeInBf16) { ExpectSwiGlus<BFloat16>(); }
TEST_F(PtxLayers, ARowsBitsAreThoseOfTheRowAloneInFp32) { ExpectRowsAlone<float>(); }
TEST_F(PtxLayers, ARowsBitsAreThoseOfTheRowAloneInFp64) { ExpectRowsAlone<double>(); }
TEST_F(PtxLayers, ARowsBitsAreThoseOfTheRowAloneInBf16) { ExpectRowsAlone<BFloat16>(); }
TEST_F(PtxLayers, BitsDoNotDependOnAddressesInFp32) { ExpectAnyAlignment<float>(); }
TEST_F(PtxLayers, BitsDoNotDependOnAddressesInFp64) { ExpectAnyAlignment<double>(); }
TEST_F(PtxLayers, BitsDoNotDependOnAddressesInBf16) { ExpectAnyAlignment<BFloat16>(); }

// bf16 rounds where the CPU rounds: nearly all numbers are the CPU's, and the others are neighbors, because the sums of
// squares are added in another order.
TEST_F(PtxLayers, RoundsToBf16WhereTheCpuDoes) {
  const Norm<BFloat16> c(3, 20, 300, true);
  Machine m(LayersPtx());
  const NormResult<BFloat16> got = Compute(m, c);
  std::vector<BFloat16> sum(c.x.size()), y(c.x.size());
  std::vector<float> inverse(c.rows);
  kernels::RmsNorm<BFloat16>({.x = c.x.data(),
                              .plus = c.plus.data(),
                              .sum = sum.data(),
                              .weight = c.weight.data(),
                              .eps = static_cast<float>(Norm<BFloat16>::kEps),
                              .rows = c.rows,
                              .n = c.n},
                             y.data(), inverse.data(), kernels::Serial);
  EXPECT_TRUE(SameBits(got.sum, sum));
  int64_t other = 0;
  for (size_t i = 0; i < y.size(); ++i) other += y[i] == got.y[i] ? 0 : 1;
  RecordProperty("numbers_unlike_the_cpus", std::to_string(other) + " of " + std::to_string(y.size()));
  EXPECT_LT(other, static_cast<int64_t>(y.size()) / 100);
}

TEST_F(PtxLayers, SwiGluIsFiniteForLargeGates) {
  SwiGluCase<float> c(1, 4);
  c.gate = {-1000, -90, 90, 1000};
  c.up = c.grad = {1, 1, 1, 1};
  Machine m(LayersPtx());
  const SwiGluResult<float> got = Compute(m, c);
  EXPECT_EQ(got.y[0], 0);
  EXPECT_EQ(got.y[3], 1000);
  for (const std::vector<float>* v : {&got.y, &got.grad_gate, &got.grad_up}) {
    for (const float x : *v) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST_F(PtxLayers, StopsAtAPositionOutsideTheTables) {
  Heads<float> c(1, 4, 2, 8, false);
  c.positions[2] = kPositions;
  Machine m(LayersPtx());
  Compute(m, c);
  ASSERT_FALSE(m.reports.empty());
  EXPECT_EQ(m.reports[0].kind, "assert");
}

// A block's rows beyond the last are not read, and each number of the others is read once per kernel.
TEST_F(PtxLayers, ReadsAndWritesEachNumberOnce) {
  const int64_t rows = 64, n = 4096;
  const Norm<BFloat16> norm(1, rows, n, true);
  Machine m(LayersPtx());
  Compute(m, norm);
  const SwiGluCase<BFloat16> gates(2, rows * n);
  Compute(m, gates);
  const auto ratio = [&](const char* kernel, const char* args, double numbers) {
    const double least = 2.0 * static_cast<double>(rows * n) * numbers;
    const double of = 32 * static_cast<double>(m.global_sectors[NameOf<BFloat16>(kernel, args)]) / least;
    RecordProperty(std::string(kernel) + "_bytes_over_least", std::to_string(of));
    return of;
  };
  // The weights, which every row reads, and a row's factor are in the caches. The first kernel reads the weights once and
  // the second one twice, which adds a fourth and a half.
  EXPECT_LT(ratio("NormKernel", "NormArgs", 4), 1.26);
  EXPECT_LT(ratio("NormGradientKernel", "NormGradientArgs", 4), 1.58);
  EXPECT_LT(ratio("SwiGluKernel", "SwiGluArgs", 3), 1.01);
  EXPECT_LT(ratio("SwiGluGradientKernel", "SwiGluGradientArgs", 5), 1.01);
}

TEST_F(PtxLayers, HasNoBankConflicts) {
  Machine m(LayersPtx());
  Compute(m, Norm<BFloat16>(1, 33, 1024, true));
  Compute(m, Heads<BFloat16>(2, 20, 4, 128, true));
  EXPECT_EQ(m.counters.wavefronts, m.counters.ideal_wavefronts);
}

}  // namespace
}  // namespace ingot::standin::ptx
