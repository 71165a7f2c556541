// The kernels of the policy on the machine: their error against fp64, and bits of a row that depend only on the row.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/policy_args.h"
#include "kernels/softmax.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::BFloat16;
namespace cuda = kernels::cuda;

const std::string& PolicyPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/policy.cu", "");
  return text;
}

std::string Mangled(const std::string& name) { return std::to_string(name.size()) + name; }

template <typename T>
const char* const kType = std::is_same_v<T, float>    ? "f"
                          : std::is_same_v<T, double> ? "d"
                                                      : "NS0_8BFloat16E";

template <typename T>
std::string NameOf(const std::string& kernel, const std::string& args) {
  return "_ZN5ingot7kernels4cuda" + Mangled(kernel) + "I" + kType<T> + "EEvNS1_" + Mangled(args) + "IT_EE";
}
template <typename T, typename Out>
std::string GradientName() {
  return std::string("_ZN5ingot7kernels4cuda20PolicyGradientKernelI") + kType<T> + kType<Out> +
         "EEvNS1_18PolicyGradientArgsIT_T0_EE";
}

// Rows of logits at temperatures, and a loss of some tokens' log-probs and the rows' entropies.
template <typename T>
struct Case {
  int64_t rows = 0, vocab = 0;
  std::vector<T> logits, temperature, of_p, of_plogp, addend;
  std::vector<int64_t> row, token, first;
  double soft_cap = 0;

  Case(uint64_t seed, int64_t rows, int64_t vocab) : rows(rows), vocab(vocab) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal(0, 1);
    const auto some = [&](int64_t count, float scale) {
      std::vector<T> values(count);
      for (T& x : values) x = static_cast<T>(scale * normal(rng));
      return values;
    };
    logits = some(rows * vocab, 5);
    of_p = some(rows, 1);
    of_plogp = some(rows, 1);
    first.push_back(0);
    for (int64_t r = 0; r < rows; ++r) {
      temperature.push_back(r % 3 == 0 ? T(1) : static_cast<T>(0.5F + 0.1F * static_cast<float>(rng() % 10)));
      for (uint64_t i = rng() % 4; i > 0; --i) {  // some tokens twice
        row.push_back(r);
        token.push_back(static_cast<int64_t>(rng() % std::min<int64_t>(vocab, i == 1 ? 2 : vocab)));
      }
      first.push_back(static_cast<int64_t>(row.size()));
    }
    addend = some(static_cast<int64_t>(row.size()), 1);
  }

  Case Row(int64_t r) const {
    Case one = *this;
    const auto part = [](auto& values, int64_t begin, int64_t end) {
      values = {values.begin() + begin, values.begin() + end};
    };
    one.rows = 1;
    part(one.logits, r * vocab, (r + 1) * vocab);
    for (std::vector<T>* v : {&one.temperature, &one.of_p, &one.of_plogp}) part(*v, r, r + 1);
    part(one.addend, first[r], first[r + 1]);
    part(one.token, first[r], first[r + 1]);
    one.row.assign(one.token.size(), 0);
    one.first = {0, first[r + 1] - first[r]};
    return one;
  }
};

template <typename T>
struct Result {
  std::vector<T> top, log_sum, entropy, log_probs, of_tokens, gradient;
  std::vector<BFloat16> narrow;  // the gradient; for fp32
};

Launch Grid(int64_t rows, int64_t parts, unsigned threads) {
  return {{static_cast<unsigned>(rows), static_cast<unsigned>(parts), 1}, {threads, 1, 1}, 0};
}

template <typename T>
Result<T> Compute(Machine& m, const Case<T>& c, int64_t skip = 0) {
  std::vector<T> shifted = c.logits;
  shifted.insert(shifted.begin(), skip, T{});
  const cuda::PolicyValues<T> values{
      m.Put(shifted) + skip,        c.rows, c.vocab, m.Put(c.temperature), m.Put(std::vector<T>(c.rows)),
      m.Put(std::vector<T>(c.rows))};
  const int64_t parts = values.parts();
  const cuda::PolicySumArgs<T> sums{values, m.Put(std::vector<T>(c.rows)),
                                    m.Put(std::vector<cuda::PolicySums<T>>(c.rows * parts))};
  m.Run(NameOf<T>("PolicyPartKernel", "PolicySumArgs"), Grid(c.rows, parts, cuda::kPolicyThreads), sums);
  m.Run(NameOf<T>("PolicyRowKernel", "PolicySumArgs"), Grid(c.rows, 1, 32), sums);
  const auto count = static_cast<int64_t>(c.row.size());
  const cuda::LogPolicyArgs<T> logs{values, nullptr, c.rows, m.Put(std::vector<T>(c.logits.size() + skip)) + skip};
  m.Run(NameOf<T>("LogPolicyKernel", "LogPolicyArgs"), Grid(c.rows, parts, cuda::kPolicyThreads), logs);
  const cuda::TokenPolicyArgs<T> tokens{values, count, m.Put(c.row), m.Put(c.token), m.Put(std::vector<T>(count))};
  if (count > 0) {
    m.Run(NameOf<T>("TokenPolicyKernel", "TokenPolicyArgs"), Grid(tokens.blocks(), 1, cuda::kPolicyThreads), tokens);
  }
  Result<T> result{m.Get(values.top, c.rows),
                   m.Get(values.log_sum, c.rows),
                   m.Get(sums.entropy, c.rows),
                   m.Get(logs.out, c.logits.size()),
                   m.Get(tokens.out, count),
                   {},
                   {}};
  const auto gradient = [&](auto zero) {
    using Out = decltype(zero);
    const cuda::PolicyGradientArgs<T, Out> args{values,
                                                m.Put(c.of_p),
                                                m.Put(c.of_plogp),
                                                m.Put(c.first),
                                                m.Put(c.token),
                                                m.Put(c.addend),
                                                c.soft_cap > 0 ? static_cast<T>(1 / c.soft_cap) : T(0),
                                                m.Put(std::vector<Out>(c.logits.size() + skip)) + skip};
    m.Run(GradientName<T, Out>(), Grid(c.rows, parts, cuda::kPolicyThreads), args);
    return m.Get(args.out, c.logits.size());
  };
  result.gradient = gradient(T{});
  if constexpr (std::is_same_v<T, float>) result.narrow = gradient(BFloat16{});
  return result;
}

// The CPU's results in fp64, whose gradient tests/kernels/torch/policy_test.cc compares with autograd's.
template <typename T>
Result<double> Want(const Case<T>& c) {
  const auto wide = [](const std::vector<T>& v) { return std::vector<double>(v.begin(), v.end()); };
  const std::vector<double> logits = wide(c.logits), temperature = wide(c.temperature), of_p = wide(c.of_p),
                            of_plogp = wide(c.of_plogp), addend = wide(c.addend);
  Result<double> want;
  for (std::vector<double>* v : {&want.top, &want.log_sum, &want.entropy}) v->resize(c.rows);
  for (std::vector<double>* v : {&want.log_probs, &want.gradient}) v->resize(logits.size());
  const kernels::PolicyRows<double> rows{logits.data(),       c.rows,          c.vocab,
                                         temperature.data(),  want.top.data(), want.log_sum.data(),
                                         want.entropy.data(), c.soft_cap};
  kernels::SumPolicy<double>(rows, kernels::Serial);
  kernels::LogPolicy<double>(rows, want.log_probs.data(), kernels::Serial);
  kernels::PolicyBackward<double, double>(rows,
                                          {of_p.data(), of_plogp.data(), c.first.data(), c.token.data(), addend.data()},
                                          want.gradient.data(), kernels::Serial);
  return want;
}

// The largest error, relative to the largest number.
template <typename T>
double ErrorOf(const std::vector<T>& got, const std::vector<double>& want) {
  double error = 0, size = std::numeric_limits<double>::min();
  for (size_t i = 0; i < want.size(); ++i) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      error = std::max(error, std::abs(double{kernels::ToFloat(got[i])} - want[i]));
    } else {
      error = std::max(error, std::abs(double{got[i]} - want[i]));
    }
    size = std::max(size, std::abs(want[i]));
  }
  return error / size;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const T* b) {
  return std::memcmp(a.data(), b, a.size() * sizeof(T)) == 0;
}
template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && SameBits(a, b.data());
}

class PtxPolicy : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }

  // A thread adds up 32 numbers in a chain, a block 8 steps, and a row its parts. Each error is below 2^-20, or 2^-49
  // in fp64, of the largest number, and a gradient's below four times that.
  template <typename T>
  void ExpectValues() {
    const double tolerance = std::is_same_v<T, float> ? 0x1p-20 : 0x1p-49;
    int trial = 0;
    for (const int64_t vocab : {1, 3, 130, 1000, 9001}) {
      Case<T> c(++trial, vocab > 1000 ? 3 : 9, vocab);
      if (trial % 2 == 0) c.soft_cap = 50;
      Machine m(PolicyPtx());
      m.options.seed = trial;
      m.options.approximate = trial % 3 == 0;
      const Result<T> got = Compute(m, c);
      const Result<double> want = Want(c);
      EXPECT_LT(ErrorOf(got.log_sum, want.log_sum), tolerance) << vocab;
      EXPECT_LT(ErrorOf(got.entropy, want.entropy), 4 * tolerance) << vocab;
      EXPECT_LT(ErrorOf(got.log_probs, want.log_probs), tolerance) << vocab;
      EXPECT_LT(ErrorOf(got.gradient, want.gradient), 4 * tolerance) << vocab;
      for (int64_t r = 0; r < c.rows; ++r) EXPECT_EQ(double{got.top[r]}, want.top[r]);
      for (size_t i = 0; i < c.row.size(); ++i) {
        EXPECT_EQ(got.of_tokens[i], got.log_probs[c.row[i] * vocab + c.token[i]]) << "a token's log-prob";
      }
      for (size_t i = 0; i < got.narrow.size(); ++i) {
        ASSERT_EQ(got.narrow[i].bits, kernels::ToBFloat16(static_cast<float>(got.gradient[i])).bits) << i;
      }
      ExpectNoReport(m);
    }
  }

  template <typename T>
  void ExpectRowsAlone() {
    const int64_t most = Trials(24, 300), vocab = 67;
    const Case<T> c(7, most, vocab);
    Machine m(PolicyPtx());
    const Result<T> all = Compute(m, c);
    for (int64_t r = 0; r < most; ++r) {
      m.options.seed = r;
      const Result<T> alone = Compute(m, c.Row(r), r % 2);
      EXPECT_TRUE(SameBits(alone.top, &all.top[r]) && SameBits(alone.log_sum, &all.log_sum[r]) &&
                  SameBits(alone.entropy, &all.entropy[r]) && SameBits(alone.log_probs, &all.log_probs[r * vocab]) &&
                  SameBits(alone.gradient, &all.gradient[r * vocab]))
          << "row " << r << " alone";
    }
    ExpectNoReport(m);
  }
};

TEST_F(PtxPolicy, HasTheErrorOfFp32) { ExpectValues<float>(); }
TEST_F(PtxPolicy, HasTheErrorOfFp64) { ExpectValues<double>(); }
TEST_F(PtxPolicy, ARowsBitsAreThoseOfTheRowAloneInFp32) { ExpectRowsAlone<float>(); }
TEST_F(PtxPolicy, ARowsBitsAreThoseOfTheRowAloneInFp64) { ExpectRowsAlone<double>(); }

// Impossible tokens have no weight, even if they fill a part of the row or all but one of it.
TEST_F(PtxPolicy, GivesImpossibleTokensNoWeight) {
  Case<float> c(3, 2, 9001);
  for (int64_t i = 0; i < c.vocab; ++i) {
    if (i != 8500) c.logits[i] = -INFINITY;
    if (i > 40) c.logits[c.vocab + i] = -INFINITY;
  }
  Machine m(PolicyPtx());
  const Result<float> got = Compute(m, c);
  EXPECT_EQ(got.log_probs[8500], 0);
  EXPECT_EQ(got.log_probs[0], -INFINITY);
  double sum = 0;
  for (int64_t i = 0; i < c.vocab; ++i) sum += std::exp(double{got.log_probs[c.vocab + i]});
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_TRUE(std::isnan(got.entropy[0]) && std::isnan(got.entropy[1]));  // as on the CPU
  ExpectNoReport(m);
}

TEST_F(PtxPolicy, ANotANumberMakesItsRowOne) {
  Case<float> c(4, 3, 100);
  c.logits[110] = NAN;
  Machine m(PolicyPtx());
  const Result<float> got = Compute(m, c);
  for (int64_t i = 0; i < 300; ++i) ASSERT_EQ(std::isnan(got.log_probs[i]), i / 100 == 1) << i;
  EXPECT_TRUE(std::isnan(got.entropy[1]) && !std::isnan(got.entropy[0]) && !std::isnan(got.entropy[2]));
}

TEST_F(PtxPolicy, WritesTheLogProbsOfChosenRows) {
  const Case<double> c(5, 7, 50);
  Machine m(PolicyPtx());
  const Result<double> all = Compute(m, c);
  const std::vector<int64_t> rows{6, 0, 6};
  const cuda::LogPolicyArgs<double> args{
      {m.Put(c.logits), c.rows, c.vocab, m.Put(c.temperature), m.Put(all.top), m.Put(all.log_sum)},
      m.Put(rows),
      3,
      m.Put(std::vector<double>(150))};
  m.Run(NameOf<double>("LogPolicyKernel", "LogPolicyArgs"), Grid(3, 1, cuda::kPolicyThreads), args);
  const std::vector<double> got = m.Get(args.out, 150);
  for (size_t i = 0; i < 150; ++i) EXPECT_EQ(got[i], all.log_probs[rows[i / 50] * 50 + static_cast<int64_t>(i) % 50]);
  ExpectNoReport(m);
}

TEST_F(PtxPolicy, StopsAtATokenOutsideTheVocabulary) {
  Case<float> c(6, 1, 20);
  c.row = {0};
  c.token = {20};
  c.addend = {1};
  c.first = {0, 1};
  Machine m(PolicyPtx());
  Compute(m, c);
  ASSERT_FALSE(m.reports.empty());
  EXPECT_EQ(m.reports[0].kind, "assert");
}

TEST_F(PtxPolicy, ReadsTheLogitsOnce) {
  const Case<float> c(8, 4, 16384);
  Machine m(PolicyPtx());
  Compute(m, c);
  const double least = 4.0 * static_cast<double>(c.logits.size());
  const auto ratio = [&](const std::string& name, double times) {
    return 32 * static_cast<double>(m.global_sectors[name]) / (least * times);
  };
  EXPECT_LT(ratio(NameOf<float>("PolicyPartKernel", "PolicySumArgs"), 1), 1.05);
  // A row's sums and factors, which each of its warps reads, are in the caches. They add a fifth and a half.
  EXPECT_LT(ratio(NameOf<float>("LogPolicyKernel", "LogPolicyArgs"), 2), 1.2);
  EXPECT_LT(ratio(GradientName<float, BFloat16>(), 1.5), 1.48);
}

}  // namespace
}  // namespace ingot::standin::ptx
