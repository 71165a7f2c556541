// The kernel of AdamW on the machine: the bits of its definition, its marks, and its error against fp64.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cuda/adamw_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::BFloat16;
namespace cuda = kernels::cuda;

const std::string& AdamWPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/adamw.cu", "");
  return text;
}

template <typename S>
std::string KernelOf() {
  const std::string type = std::is_same_v<S, float> ? "f" : "d";
  return "_ZN5ingot7kernels4cuda11AdamWKernelI" + type + "EEvNS1_9AdamWArgsIT_EE";
}

// The state of one tensor. `parameter` is empty if the master is the parameter.
template <typename S>
struct State {
  std::vector<S> master, exp_avg, exp_avg_sq, gradient;
  std::vector<BFloat16> parameter;
  std::vector<uint32_t> changes;

  bool operator==(const State& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
    };
    return same(master, other.master) && same(exp_avg, other.exp_avg) && same(exp_avg_sq, other.exp_avg_sq) &&
           same(parameter, other.parameter) && same(changes, other.changes);
  }
};

uint16_t Rounded(float x) { return std::isnan(x) ? 0x7fc0 : kernels::ToBFloat16(x).bits; }

template <typename S>
State<S> RandomState(uint64_t seed, size_t count, bool narrow) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, 1);
  State<S> s;
  for (size_t i = 0; i < count; ++i) {
    s.master.push_back(static_cast<S>(normal(rng)));
    s.exp_avg.push_back(static_cast<S>(0.1 * normal(rng)));
    s.exp_avg_sq.push_back(static_cast<S>(std::pow(normal(rng), 2)));
    s.gradient.push_back(rng() % 9 == 0 ? S{0} : static_cast<S>(normal(rng)));
    if (narrow) s.parameter.push_back({Rounded(static_cast<float>(s.master.back()))});
  }
  if (narrow) s.changes.assign((count + 63) / 64 * 2, 0);
  return s;
}

struct Numbers {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, rate = 1e-3, weight_decay = 0.1;
  int t = 3;
  bool weights = true, moments = true;

  template <typename S>
  cuda::AdamWTerms<S> Terms() const {
    const auto of = [](double x) { return static_cast<S>(x); };
    return {of(beta1),
            of(1 - beta1),
            of(beta2),
            of(1 - beta2),
            of(std::sqrt(1 - std::pow(beta2, t))),
            of(eps),
            of(1 - rate * weight_decay),
            of(-rate / (1 - std::pow(beta1, t)))};
  }
};

// The definition, each operation rounded in S. fp64 stands for the exact values.
template <typename S>
State<S> Want(State<S> s, const cuda::AdamWTerms<S>& t, const Numbers& n) {
  for (size_t i = 0; i < s.master.size(); ++i) {
    const S old = s.master[i];
    if (!s.gradient.empty()) {
      const S g = s.gradient[i], exp_avg = std::fma(t.rest1, g, t.beta1 * s.exp_avg[i]),
              square = std::fma(t.rest2 * g, g, t.beta2 * s.exp_avg_sq[i]);
      const S denominator = std::sqrt(square) / t.root + t.eps;
      if (n.weights) s.master[i] = s.master[i] * t.decay + t.step * exp_avg / denominator;
      if (n.moments) {
        s.exp_avg[i] = exp_avg;
        s.exp_avg_sq[i] = square;
      }
    }
    if (s.parameter.empty()) {
      const bool changed = std::memcmp(&s.master[i], &old, sizeof(old)) != 0;
      if (changed && !s.changes.empty()) s.changes[i / 32] |= uint32_t{1} << (i % 32);
      continue;
    }
    const uint16_t word = Rounded(static_cast<float>(s.master[i]));
    if (word != s.parameter[i].bits) s.changes[i / 32] |= uint32_t{1} << (i % 32);
    s.parameter[i].bits = word;
  }
  return s;
}

template <typename S>
State<S> Updated(Machine& m, const State<S>& s, const Numbers& n) {
  cuda::AdamWArgs<S> args{};
  args.count = static_cast<int64_t>(s.master.size());
  args.master = m.Put(s.master);
  args.exp_avg = m.Put(s.exp_avg);
  args.exp_avg_sq = m.Put(s.exp_avg_sq);
  if (!s.gradient.empty()) args.gradient = m.Put(s.gradient);
  if (!s.parameter.empty()) args.parameter = m.Put(s.parameter);
  if (!s.changes.empty()) args.changes = m.Put(s.changes);
  args.terms = n.Terms<S>();
  args.weights = n.weights;
  args.moments = n.moments;
  constexpr int64_t kOfBlock = cuda::kAdamWThreads * cuda::kAdamWEach;
  const auto blocks = static_cast<unsigned>((args.count + kOfBlock - 1) / kOfBlock);
  m.Run(KernelOf<S>(), {{blocks, 1, 1}, {cuda::kAdamWThreads, 1, 1}, 0}, args);
  const size_t count = s.master.size();
  State<S> out{
      m.Get(args.master, count), m.Get(args.exp_avg, count), m.Get(args.exp_avg_sq, count), s.gradient, {}, {}};
  if (!s.parameter.empty()) out.parameter = m.Get(args.parameter, count);
  if (!s.changes.empty()) out.changes = m.Get(args.changes, s.changes.size());
  return out;
}

class PtxAdamW : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }

  // Three updates, whose marks add up, of sizes around a block's and an entry's.
  template <typename S>
  void ExpectTheDefinition(bool narrow) {
    for (int i = 0; i < Trials(8, 100) && !HasFailure(); ++i) {
      const size_t count = std::array{1, 31, 64, 700, 1024, 2500, 1025, 63}[i % 8];
      State<S> s = RandomState<S>(i, count, narrow);
      for (int t = 1; t <= 3; ++t) {
        Numbers n;
        n.t = t;
        n.rate = i % 2 == 0 ? 1e-3 : 1e-5;
        const State<S> want = Want(s, n.Terms<S>(), n);
        Machine m(AdamWPtx());
        m.options.seed = i;
        m.options.approximate = i % 3 == 1;
        s = Updated(m, s, n);
        EXPECT_TRUE(s == want) << "trial " << i << ", update " << t;
        ExpectNoReport(m);
      }
    }
  }
};

TEST_F(PtxAdamW, EqualsItsDefinitionInFp32) { ExpectTheDefinition<float>(false); }
TEST_F(PtxAdamW, EqualsItsDefinitionInFp64) { ExpectTheDefinition<double>(false); }
TEST_F(PtxAdamW, EqualsItsDefinitionInBf16) { ExpectTheDefinition<float>(true); }

// An update of fp32 numbers marks those that it changes: not the ones with a gradient of 0 and no moment, in a tensor
// without weight decay.
TEST_F(PtxAdamW, MarksTheNumbersOfAMasterThatIsTheParameter) {
  for (const size_t count : {1, 64, 1025, 2500}) {
    State<float> s = RandomState<float>(3, count, false);
    s.changes.assign((count + 63) / 64 * 2, 0);
    Numbers n;
    n.weight_decay = 0;
    for (size_t i = 0; i < count; i += 3) s.gradient[i] = s.exp_avg[i] = 0;
    Machine m(AdamWPtx());
    const State<float> got = Updated(m, s, n);
    EXPECT_TRUE(got == Want(s, n.Terms<float>(), n)) << count;
    for (size_t i = 0; i < count; i += 3) EXPECT_EQ(got.changes[i / 32] >> (i % 32) & 1, 0u) << i;
    if (count > 1) {
      EXPECT_NE(got.changes[0], 0u);
    }
    Numbers moments = n;
    moments.weights = false;
    State<float> again = s;
    EXPECT_EQ(Updated(m, again, moments).changes, s.changes) << "the weights stay";
    ExpectNoReport(m);
  }
}

TEST_F(PtxAdamW, ChangesTheWeightsAndThenTheMomentsWithTheSameBits) {
  const State<float> s = RandomState<float>(5, 1500, true);
  Machine m(AdamWPtx());
  const State<float> both = Updated(m, s, {});
  Numbers weights, moments;
  weights.moments = moments.weights = false;
  State<float> first = Updated(m, s, weights);
  EXPECT_EQ(first.exp_avg, s.exp_avg);
  // As AdamW::Commit, which does not round again.
  State<float> second = first;
  second.parameter.clear();
  second = Updated(m, second, moments);
  EXPECT_EQ(second.master, first.master);
  EXPECT_EQ(first.master, both.master);
  EXPECT_EQ(second.exp_avg, both.exp_avg);
  EXPECT_EQ(second.exp_avg_sq, both.exp_avg_sq);
  EXPECT_EQ(first.changes, both.changes);
  ExpectNoReport(m);
}

// Every kind of number that rounds in its own way, against a parameter that has it already, and one that has not.
TEST_F(PtxAdamW, RoundsAsTheCpuAndMarksOnlyWhatDiffers) {
  State<float> s;
  for (uint32_t high = 0; high < 0x10000; high += 37) {
    for (const uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      s.master.push_back(std::bit_cast<float>(high << 16 | low));
      const uint16_t word = Rounded(s.master.back());
      s.parameter.push_back({static_cast<uint16_t>(s.master.size() % 3 == 0 ? word ^ 1 : word)});
    }
  }
  s.exp_avg = s.exp_avg_sq = std::vector<float>(s.master.size());
  s.changes.assign((s.master.size() + 63) / 64 * 2, 0);
  Machine m(AdamWPtx());
  const State<float> rounded = Updated(m, s, {});
  EXPECT_TRUE(rounded == Want(s, Numbers().Terms<float>(), {}));
  for (size_t i = 0; i < s.master.size(); ++i) {
    ASSERT_EQ(rounded.changes[i / 32] >> (i % 32) & 1, i % 3 == 2 ? 1u : 0u) << i;
  }
  ExpectNoReport(m);
}

TEST_F(PtxAdamW, HasTheErrorOfFp32AgainstFp64) {
  const State<float> s = RandomState<float>(9, 20000, false);
  State<double> wide;
  for (size_t i = 0; i < s.master.size(); ++i) {
    wide.master.push_back(s.master[i]);
    wide.exp_avg.push_back(s.exp_avg[i]);
    wide.exp_avg_sq.push_back(s.exp_avg_sq[i]);
    wide.gradient.push_back(s.gradient[i]);
  }
  const Numbers n;
  const State<double> exact = Want(wide, n.Terms<double>(), n);
  Machine m(AdamWPtx());
  const State<float> got = Updated(m, s, n);
  double error = 0, size = 0, moments = 0;
  for (size_t i = 0; i < s.master.size(); ++i) {
    error += std::pow(got.master[i] - exact.master[i], 2);
    size += std::pow(exact.master[i], 2);
    moments = std::max(moments, std::abs(got.exp_avg_sq[i] - exact.exp_avg_sq[i]) / exact.exp_avg_sq[i]);
  }
  RecordProperty("relative_rms_of_weights", std::to_string(std::sqrt(error / size) * 1e9) + "e-9");
  EXPECT_LT(std::sqrt(error / size), 0x1p-23);
  EXPECT_LT(moments, 0x1p-22);
}

TEST_F(PtxAdamW, ReadsAndWritesEachNumberOnce) {
  constexpr size_t kCount = 1 << 15;
  const State<float> s = RandomState<float>(2, kCount, true);
  Machine m(AdamWPtx());
  Numbers n;
  n.rate = 0.1;  // changes nearly every word
  Updated(m, s, n);
  // Reads four numbers and a word, and writes three numbers and a word.
  const double least = static_cast<double>(kCount) * (7 * 4 + 2 * 2);
  const double ratio = 32 * static_cast<double>(m.global_sectors[KernelOf<float>()]) / least;
  RecordProperty("bytes_over_least", std::to_string(ratio));
  EXPECT_LT(ratio, 1.1);
}

}  // namespace
}  // namespace ingot::standin::ptx
