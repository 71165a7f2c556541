// The draw kernels (src/kernels/cuda/draw.cuh), compiled to PTX by nvcc, on the machine: the CPU's winner for every row.
#include <algorithm>
#include <limits>
#include <random>

#include "kernels/cuda/draw_args.h"
#include "kernels/draws/race_time.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::RaceCut;
namespace cuda = kernels::cuda;

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const std::string& DrawPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/draw.cu", "");
  return text;
}

const char kDraw[] = "_ZN5ingot7kernels4cuda10DrawKernelENS1_8DrawArgsE";
const char kWinner[] = "_ZN5ingot7kernels4cuda16DrawWinnerKernelENS1_8DrawArgsE";

// Rows of `count` entries, one after another.
struct Rows {
  int64_t count;
  std::vector<float> entries;
  std::vector<uint64_t> seeds;
  std::vector<RaceCut> cuts;  // empty = none

  const float* Row(size_t i) const { return entries.data() + static_cast<int64_t>(i) * count; }
  std::vector<int64_t> CpuWinners() const {
    std::vector<int64_t> winners;
    for (size_t i = 0; i < seeds.size(); ++i) {
      winners.push_back(kernels::Race({Row(i), count, nullptr}, seeds[i], cuts.empty() ? RaceCut{} : cuts[i]));
    }
    return winners;
  }
};

struct Drawn {
  std::vector<int64_t> winners;
  std::vector<float> log_probs;
};

Drawn Draw(Machine& m, const Rows& rows) {
  const auto n = static_cast<int64_t>(rows.seeds.size());
  cuda::DrawArgs args{};
  args.log_weights = m.Put(rows.entries);
  args.rows = n;
  args.count = rows.count;
  args.seeds = m.Put(rows.seeds);
  args.cuts = m.Put(rows.cuts);
  args.best = m.Put(std::vector<cuda::DrawBest>(n * args.parts(), {kNan, 7}));
  args.winners = m.Put(std::vector<int64_t>(n, 7));
  args.log_probs = m.Put(std::vector<float>(n, 7));
  m.Run(kDraw, {{static_cast<unsigned>(n), static_cast<unsigned>(args.parts()), 1}, {256, 1, 1}, 0}, args);
  m.Run(kWinner, {{static_cast<unsigned>(n), 1, 1}, {32, 1, 1}, 0}, args);
  return {m.Get(args.winners, n), m.Get(args.log_probs, n)};
}

void ExpectTheCpusWinners(const Rows& rows, uint64_t seed = 0) {
  Machine m(DrawPtx());
  m.options.seed = seed;
  m.options.approximate = seed % 2 == 1;
  const Drawn drawn = Draw(m, rows);
  const std::vector<int64_t> want = rows.CpuWinners();
  ASSERT_EQ(drawn.winners, want) << "seed " << seed << ", " << rows.count << " entries";
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(drawn.log_probs[i], want[i] < 0 ? kNever : rows.Row(i)[want[i]]);
  ExpectNoReport(m);
  EXPECT_EQ(m.counters.wavefronts, m.counters.ideal_wavefronts) << "bank conflicts";
}

class PtxDraw : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }
};

Rows NormalRows(uint64_t seed, int64_t count, size_t rows) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal(0, std::array{0.0f, 1.0f, 3.0f, 30.0f, 1e6f}[seed % 5]);
  Rows r{count, std::vector<float>(count * rows), {}, {}};
  for (float& entry : r.entries) entry = normal(rng);
  for (size_t i = 0; i < rows; ++i) r.seeds.push_back(rng());
  return r;
}

TEST_F(PtxDraw, HasTheCpusWinner) {
  const int launches = Trials(100, 10000);
  for (int i = 0; i < launches && !HasFatalFailure(); ++i) {
    ExpectTheCpusWinners(NormalRows(i, std::array{1, 7, 64, 300}[i % 4] + i % 31, 100), i);
  }
}

TEST_F(PtxDraw, HasTheCpusWinnerOnLongRows) {
  for (int i = 0; i < Trials(6, 60) && !HasFatalFailure(); ++i) {
    Rows rows = NormalRows(i, 2 * cuda::kDrawPart + 1 - i % 3 * 1000, 2);
    if (i % 3 == 1) std::sort(rows.entries.begin(), rows.entries.end());  // most entries beat the best time so far
    if (i % 3 == 2) std::sort(rows.entries.rbegin(), rows.entries.rend());
    ExpectTheCpusWinners(rows, i);
  }
}

// All entries have the same time but for the rounding of the entry, or a few such steps. So fp32 cannot tell them apart.
Rows NearlyEqualTimes(uint64_t seed, int64_t count, size_t rows) {
  std::mt19937_64 rng(seed);
  Rows r{count, std::vector<float>(count * rows), {}, {}};
  for (size_t i = 0; i < rows; ++i) {
    r.seeds.push_back(rng());
    for (int64_t id = 0; id < count; ++id) {
      const double time = kernels::inner::LogTime(kernels::inner::HashOf(kernels::inner::Mix64(r.seeds[i]), id));
      const auto entry = static_cast<float>(time + static_cast<double>(seed % 8) * 4 - 16);
      r.entries[i * count + id] = std::nextafter(entry, rng() % 2 == 0 ? INFINITY : -INFINITY);
    }
  }
  return r;
}

TEST_F(PtxDraw, HasTheCpusWinnerIfTimesAreNearlyEqual) {
  const int launches = Trials(8, 200);
  for (int i = 0; i < launches && !HasFatalFailure(); ++i)
    ExpectTheCpusWinners(NearlyEqualTimes(i, 40 + 300 * (i % 3), 20), i);
}

// With entries this large the smallest step of a time is larger than -ln U.
TEST_F(PtxDraw, EqualTimesGoToTheSmallerId) {
  for (const float huge : {1e30f, -1e30f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()}) {
    Rows rows{600, std::vector<float>(600 * 4, huge), {1, 2, 3, 4}, {}};
    rows.entries[0] = kNever;
    ExpectTheCpusWinners(rows);
  }
}

TEST_F(PtxDraw, NeverDrawsWhatIsExcluded) {
  Rows rows = NormalRows(1, 500, 40);
  std::mt19937_64 rng(2);
  for (float& entry : rows.entries) {
    if (rng() % 3 == 0) entry = rng() % 2 == 0 ? kNever : kNan;
  }
  std::fill_n(rows.entries.begin(), 500, kNever);  // nothing is left of the first row
  ExpectTheCpusWinners(rows);
  for (size_t i = 0; i < 40; ++i) {
    rows.entries[i * 500 + 99] = rows.entries[i * 500 + 101] = 0.5f;  // kept before the split, and not after it
    rows.cuts.push_back({0.5f, 100});
  }
  ExpectTheCpusWinners(rows);
  for (RaceCut& cut : rows.cuts) cut = {.floor = 1e9f};
  EXPECT_EQ(rows.CpuWinners(), std::vector<int64_t>(40, -1));
  ExpectTheCpusWinners(rows);
}

TEST_F(PtxDraw, ReadsEachEntryOnce) {
  const Rows rows = NormalRows(1, 4 * cuda::kDrawPart, 2);
  Machine m(DrawPtx());
  Draw(m, rows);
  const double ratio = 32 * static_cast<double>(m.global_sectors[kDraw] + m.global_sectors[kWinner]) /
                       static_cast<double>(rows.entries.size() * sizeof(float));
  RecordProperty("bytes_over_least", std::to_string(ratio));
  EXPECT_LT(ratio, 1.01);
}

TEST_F(PtxDraw, EachBarrierIsMissedWhenItIsDeleted) {
  const Rows rows = NormalRows(2, 700, 3);
  const std::vector<size_t> places = PlacesOf(DrawPtx(), kDraw, "bar.sync");
  ASSERT_EQ(places.size(), 2u);
  for (const size_t place : places) {
    Machine m(Without(DrawPtx(), place));
    m.options.max_reports = 1;
    const Drawn drawn = Draw(m, rows);
    EXPECT_TRUE(!m.reports.empty() || drawn.winners != rows.CpuWinners());
  }
}

}  // namespace
}  // namespace ingot::standin::ptx
