// The kernel that adds rows, on the machine: the sums of a loop, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cuda/add_rows_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::Accumulator;
using kernels::BFloat16;
namespace cuda = kernels::cuda;

const std::string& AddRowsPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/add_rows.cu", "");
  return text;
}

template <typename T>
std::string KernelOf() {
  const std::string type = std::is_same_v<T, float> ? "If" : std::is_same_v<T, double> ? "Id" : "INS0_8BFloat16E";
  return "_ZN5ingot7kernels4cuda13AddRowsKernel" + type + "EEvNS1_11AddRowsArgsE";
}

float Wide(float x) { return x; }
double Wide(double x) { return x; }
float Wide(BFloat16 x) { return kernels::ToFloat(x); }
template <typename T>
T Narrow(Accumulator<T> x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return kernels::ToBFloat16(x);
  } else {
    return x;
  }
}

template <typename T>
struct Rows {
  int64_t limit, width;
  std::vector<int64_t> ids;
  std::vector<T> rows, sums;

  // Few of the ids occur in most rows.
  Rows(uint64_t seed, int64_t limit, int64_t count, int64_t width) : limit(limit), width(width) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(rng() % (rng() % limit + 1)));
    for (int64_t i = 0; i < count * width; ++i) rows.push_back(Narrow<T>(normal(rng)));
    for (int64_t i = 0; i < limit * width; ++i) sums.push_back(Narrow<T>(normal(rng)));
  }

  std::vector<T> Want() const {
    std::vector<Accumulator<T>> wide;
    for (const T& x : sums) wide.push_back(Wide(x));
    for (size_t i = 0; i < ids.size(); ++i) {
      for (int64_t c = 0; c < width; ++c) wide[ids[i] * width + c] += Wide(rows[i * width + c]);
    }
    std::vector<T> want;
    for (const auto& x : wide) want.push_back(Narrow<T>(x));
    return want;
  }
};

template <typename T>
std::vector<T> Add(Machine& m, const Rows<T>& r) {
  const auto count = static_cast<int64_t>(r.ids.size());
  std::vector<int64_t> order(count), targets;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return r.ids[a] < r.ids[b]; });
  for (const int64_t i : order) targets.push_back(r.ids[i]);
  T* const sums = m.Put(r.sums);
  const cuda::AddRowsArgs args{m.Put(targets), m.Put(order), m.Put(r.rows), sums, count, r.width, r.limit};
  m.Run(KernelOf<T>(), {{static_cast<unsigned>(args.blocks()), 1, 1}, {cuda::kAddRowsThreads, 1, 1}, 0}, args);
  return m.Get(sums, r.sums.size());
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

class PtxAddRows : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }

  template <typename T>
  void ExpectTheLoopsSums() {
    for (int i = 0; i < Trials(20, 400) && !HasFailure(); ++i) {
      const Rows<T> rows(i, 1 + i % 40, 1 + i * 37 % 300, std::array{1, 5, 128, 200}[i % 4]);
      Machine m(AddRowsPtx());
      m.options.seed = i;
      EXPECT_TRUE(SameBits(Add(m, rows), rows.Want())) << "trial " << i;
      ExpectNoReport(m);
    }
  }
};

TEST_F(PtxAddRows, HasTheSumsOfALoopInFp32) { ExpectTheLoopsSums<float>(); }
TEST_F(PtxAddRows, HasTheSumsOfALoopInFp64) { ExpectTheLoopsSums<double>(); }
TEST_F(PtxAddRows, HasTheSumsOfALoopInBf16) { ExpectTheLoopsSums<BFloat16>(); }

// Another order gives other bits, so that the tests above would notice it.
TEST_F(PtxAddRows, TheOrderMatters) {
  Rows<float> rows(1, 4, 200, 8);
  const std::vector<float> want = rows.Want();
  std::reverse(rows.ids.begin(), rows.ids.end());
  for (size_t i = 0, j = 199; i < j; ++i, --j) {
    std::swap_ranges(&rows.rows[i * 8], &rows.rows[i * 8] + 8, &rows.rows[j * 8]);
  }
  EXPECT_FALSE(SameBits(rows.Want(), want));
}

TEST_F(PtxAddRows, StopsAtAnIdOutsideTheSums) {
  Rows<float> rows(1, 4, 20, 8);
  rows.ids[7] = 4;
  Machine m(AddRowsPtx());
  Add(m, rows);
  ASSERT_FALSE(m.reports.empty());
  EXPECT_EQ(m.reports[0].kind, "assert");
}

// Reads each row once. The targets and their order are 16 bytes per row, which all columns read.
TEST_F(PtxAddRows, ReadsEachRowOnce) {
  const Rows<float> rows(3, 50, 2000, 256);
  Machine m(AddRowsPtx());
  Add(m, rows);
  const std::vector<int64_t> ids = rows.ids;
  std::vector<int64_t> distinct = ids;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const double least = 4.0 * 256 * (2000 + 2.0 * static_cast<double>(distinct.size()));
  const double ratio = 32 * static_cast<double>(m.global_sectors[KernelOf<float>()]) / least;
  RecordProperty("bytes_over_least", std::to_string(ratio));
  EXPECT_LT(ratio, 1.25);
}

}  // namespace
}  // namespace ingot::standin::ptx
