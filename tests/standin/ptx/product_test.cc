// The kernels of linear layers with exact numerics (src/kernels/cuda/product_*.cuh), compiled to PTX by nvcc, on the
// machine: each row has the bits of the row alone, for every number of rows; results against fp64; bank conflicts; and
// each barrier and wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cuda/product_args.h"
#include "standin/ptx/attention_machine.h"
#include "standin/ptx/compile_ptx.h"
#include "trials.h"

namespace ingot::standin::ptx {
namespace {

using kernels::Accumulator;
using kernels::BFloat16;
namespace cuda = kernels::cuda;

const std::string& ProductPtx() {
  static const std::string text = CompilePtx(FindNvcc(), "src/kernels/cuda/product.cu", "");
  return text;
}
std::string NumberText(int64_t number) { return "Li" + std::to_string(number) + "E"; }

std::string MmaKernelOf(const cuda::ProductTile& t) {
  return "_ZN5ingot7kernels4cuda16ProductMmaKernelI" + NumberText(t.rows) + NumberText(t.cols) + NumberText(t.down) +
         NumberText(t.stages) + "EEvNS1_11ProductArgsINS0_8BFloat16EEE";
}

template <typename T>
std::string PlainKernelOf(int rows) {
  const std::string type = std::is_same_v<T, float> ? "f" : std::is_same_v<T, double> ? "d" : "NS0_8BFloat16E";
  return "_ZN5ingot7kernels4cuda13ProductKernelI" + type + NumberText(rows) + "EEvNS1_11ProductArgsIT_EE";
}

double Wide(double x) { return x; }
double Wide(BFloat16 x) { return kernels::ToFloat(x); }

template <typename T>
std::vector<T> Random(std::mt19937_64& rng, int64_t count) {
  std::normal_distribution<double> normal(0, 1);
  std::vector<T> values(count);
  for (T& x : values) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      x = kernels::ToBFloat16(static_cast<float>(normal(rng)));
    } else {
      x = static_cast<T>(normal(rng));
    }
  }
  return values;
}

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
struct Layer {
  int64_t rows, in, out;
  std::vector<T> x, weight, bias;

  Layer(uint64_t seed, int64_t row_count, int64_t columns, int64_t results, bool has_bias = true)
      : rows(row_count), in(columns), out(results) {
    std::mt19937_64 rng(seed);
    x = Random<T>(rng, rows * in);
    weight = Random<T>(rng, out * in);
    if (has_bias) bias = Random<T>(rng, out);
  }
};

// The layer on the machine, and its last results. The weight is copied to the machine once.
template <typename T>
struct ProductRun {
  Machine m;
  const Layer<T>& layer;
  const T *weight, *bias;

  explicit ProductRun(const Layer<T>& of, const std::string& ptx = ProductPtx())
      : m(ptx), layer(of), weight(m.Put(of.weight)), bias(m.Put(of.bias)) {}

  // Rows [first, first + count), as LaunchProduct computes them.
  template <typename Result>
  std::vector<Result> Rows(int64_t first, int64_t count) {
    const std::vector<T> x(layer.x.begin() + first * layer.in, layer.x.begin() + (first + count) * layer.in);
    Result* const y = m.Put(std::vector<Result>(count * layer.out, Result{}));
    cuda::ProductArgs<T> args{m.Put(x), weight, bias, nullptr, nullptr, count, layer.in, layer.out};
    if constexpr (std::is_same_v<Result, T>) {
      args.y = y;
    } else {
      args.wide = y;
    }
    Launch(args);
    return m.Get(y, count * layer.out);
  }

  void Launch(const cuda::ProductArgs<T>& args) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (cuda::UsesMmaProduct<T>(args.in)) {
        const cuda::ProductTile tile = cuda::TileOf(args.rows);
        const auto blocks = static_cast<unsigned>(args.row_tiles(tile.rows) * args.col_tiles(tile.cols));
        return m.Run(MmaKernelOf(tile),
                     {{blocks, 1, 1}, {cuda::kProductThreads, 1, 1}, static_cast<size_t>(cuda::SharedBytes(tile))},
                     args);
      }
    }
    const int rows = args.rows <= cuda::kPlainFewRows ? cuda::kPlainFewRows : cuda::kPlainManyRows;
    const auto blocks = static_cast<unsigned>(args.row_tiles(rows) * args.col_tiles(cuda::kPlainCols));
    m.Run(PlainKernelOf<T>(rows), {{blocks, 1, 1}, {cuda::kPlainProductThreads, 1, 1}, 0}, args);
  }
};

// Compares with fp64. The sums are in the type of the accumulator, whose unit is `unit`: each of `in` additions rounds by at
// most a unit of the sum of magnitudes so far (a tensor core cuts off, so by a whole unit and not half). A rounded result
// adds half a unit in the last place of its own type.
template <typename T, typename Result>
void ExpectClose(const Layer<T>& l, const std::vector<Result>& got) {
  const double unit = std::is_same_v<Accumulator<T>, double> ? 0x1p-52 : 0x1p-23;
  const double result_unit = std::is_same_v<Result, BFloat16> ? 0x1p-8 : unit;
  for (int64_t r = 0; r < l.rows; ++r) {
    for (int64_t o = 0; o < l.out; ++o) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < l.in; ++k) {
        const double term = Wide(l.x[r * l.in + k]) * Wide(l.weight[o * l.in + k]);
        sum += term;
        size += std::abs(term);
      }
      if (!l.bias.empty()) {
        sum += Wide(l.bias[o]);
        size += std::abs(Wide(l.bias[o]));
      }
      const double error = std::abs(Wide(got[r * l.out + o]) - sum);
      ASSERT_LE(error, static_cast<double>(l.in + 1) * unit * size + result_unit * std::abs(sum)) << r << " " << o;
    }
  }
}

class PtxProduct : public ::testing::Test {
 protected:
  void SetUp() override {
    if (FindNvcc().empty()) GTEST_SKIP() << "no CUDA compiler: scripts/setup.sh installs it";
  }
};

// For each number of rows, the rows' bits are those of each row alone. Batches begin at different rows, so a row is in
// every place.
template <typename T, typename Result>
void ExpectRowsAlone(const Layer<T>& layer, const std::vector<int64_t>& counts, SumOrder sum) {
  ProductRun<T> run(layer);
  run.m.options.sum = sum;
  std::vector<Result> alone;
  for (int64_t row = 0; row < layer.rows; ++row) {
    const std::vector<Result> y = run.template Rows<Result>(row, 1);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  ExpectClose(layer, alone);
  for (const int64_t count : counts) {
    run.m.options.seed = static_cast<uint64_t>(count);
    run.m.options.arrival = count % 2 == 0 ? Arrival::kLate : Arrival::kRandom;
    const int64_t first = (layer.rows - count) * (count % 3) / 2;
    const std::vector<Result> want(alone.begin() + first * layer.out, alone.begin() + (first + count) * layer.out);
    ASSERT_TRUE(SameBits(run.template Rows<Result>(first, count), want)) << count << " rows";
  }
  ExpectNoReport(run.m);
}

// Numbers of rows around the tiles' edges; all of them in `make check`.
std::vector<int64_t> RowCounts(int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count <= most; ++count) counts.push_back(count);
  if (Trials(0, 1) == 0) counts = {1, 2, 15, 16, 17, 33, 64, 65, 127, 129, 300};
  while (counts.back() > most) counts.pop_back();
  return counts;
}

TEST_F(PtxProduct, EachRowOfTensorCoresHasTheBitsOfTheRowAlone) {
  for (const SumOrder sum : {SumOrder::kAscending, SumOrder::kTensorCore}) {
    ExpectRowsAlone<BFloat16, BFloat16>(Layer<BFloat16>(1, 300, 72, 70), RowCounts(300), sum);
  }
}
TEST_F(PtxProduct, EachRowOfWideResultsHasTheBitsOfTheRowAlone) {
  ExpectRowsAlone<BFloat16, float>(Layer<BFloat16>(2, 70, 296, 131, false), RowCounts(70), SumOrder::kTensorCore);
}
TEST_F(PtxProduct, EachRowOfFp32HasTheBitsOfTheRowAlone) {
  ExpectRowsAlone<float, float>(Layer<float>(3, 300, 21, 18), RowCounts(300), SumOrder::kAscending);
}
TEST_F(PtxProduct, EachRowOfFp64HasTheBitsOfTheRowAlone) {
  ExpectRowsAlone<double, double>(Layer<double>(4, 80, 19, 66, false), RowCounts(80), SumOrder::kAscending);
}
TEST_F(PtxProduct, EachRowOfUnevenBf16HasTheBitsOfTheRowAlone) {
  ExpectRowsAlone<BFloat16, BFloat16>(Layer<BFloat16>(5, 70, 21, 9), RowCounts(70), SumOrder::kAscending);
  ExpectRowsAlone<BFloat16, float>(Layer<BFloat16>(6, 70, 35, 65), RowCounts(70), SumOrder::kAscending);
}

TEST_F(PtxProduct, AgreesWithFp64ForManyShapes) {
  const auto trials = static_cast<uint64_t>(Trials(12, 200));
  for (uint64_t seed = 1; seed <= trials && !HasFailure(); ++seed) {
    std::mt19937_64 rng(seed);
    const auto below = [&rng](uint64_t n) { return static_cast<int64_t>(rng() % n); };
    const int64_t rows = 1 + below(seed % 3 == 0 ? 200 : 20), in = 8 * (1 + below(40)), out = 1 + below(150);
    SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(in) + " columns, " + std::to_string(out) +
                 " results");
    const Layer<BFloat16> layer(seed, rows, in, out, seed % 2 == 0);
    ProductRun<BFloat16> run(layer);
    run.m.options.seed = seed;
    run.m.options.arrival = seed % 2 == 0 ? Arrival::kEarly : Arrival::kRandom;
    run.m.options.sum = seed % 4 < 2 ? SumOrder::kAscending : SumOrder::kTensorCore;
    ExpectClose(layer, run.Rows<BFloat16>(0, rows));
    ExpectClose(layer, run.Rows<float>(0, rows));
    ExpectNoReport(run.m);
    EXPECT_EQ(run.m.counters.wavefronts, run.m.counters.ideal_wavefronts) << "bank conflicts";
  }
}

// With ascending sums, a chain of mma is a loop of fused multiply-adds.
TEST_F(PtxProduct, TensorCoresThatAddInOrderHaveTheBitsOfALoop) {
  const Layer<BFloat16> layer(7, 21, 104, 70);
  ProductRun<BFloat16> run(layer);
  std::vector<float> want;
  for (int64_t r = 0; r < layer.rows; ++r) {
    for (int64_t o = 0; o < layer.out; ++o) {
      float sum = 0;
      for (int64_t k = 0; k < layer.in; ++k) {
        sum = std::fma(kernels::ToFloat(layer.x[r * layer.in + k]), kernels::ToFloat(layer.weight[o * layer.in + k]),
                       sum);
      }
      want.push_back(sum + kernels::ToFloat(layer.bias[o]));
    }
  }
  EXPECT_TRUE(SameBits(run.Rows<float>(0, layer.rows), want));
}

TEST_F(PtxProduct, NotANumberInARowComesOutOfItAlone) {
  Layer<BFloat16> layer(8, 20, 40, 66);
  const std::vector<BFloat16> before = ProductRun<BFloat16>(layer).Rows<BFloat16>(0, 20);
  layer.x[7 * 40 + 33] = kernels::ToBFloat16(NAN);
  std::vector<BFloat16> after = ProductRun<BFloat16>(layer).Rows<BFloat16>(0, 20);
  for (int64_t o = 0; o < 66; ++o) EXPECT_TRUE(std::isnan(kernels::ToFloat(after[7 * 66 + o])));
  std::copy_n(before.begin() + 7 * 66, 66, after.begin() + 7 * 66);
  EXPECT_TRUE(SameBits(before, after));
}

TEST_F(PtxProduct, ALayerWithoutColumnsGivesItsBias) {
  const Layer<BFloat16> layer(9, 3, 0, 10);
  ProductRun<BFloat16> run(layer);
  const std::vector<BFloat16> y = run.Rows<BFloat16>(0, 3);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], layer.bias[i % 10]);
  ExpectNoReport(run.m);
}

// Each weight is read once for up to kFewRows rows. A tile of 64 columns reads the rows of x again.
TEST_F(PtxProduct, ReadsEachWeightOnceForAFewRows) {
  const Layer<BFloat16> layer(10, 16, 512, 256, false);
  ProductRun<BFloat16> run(layer);
  run.Rows<BFloat16>(0, 16);
  const double least = 2.0 * (16 * 512 + 256 * 512 + 16 * 256), x_again = 2.0 * 3 * 16 * 512;
  const double ratio = (32 * static_cast<double>(run.m.global_sectors[MmaKernelOf(cuda::kFewRows)]) - x_again) / least;
  RecordProperty("bytes_over_least", std::to_string(ratio));
  EXPECT_LT(ratio, 1.05);
}

// Deletes each barrier and wait of a kernel in turn. Returns how many there are.
template <typename T>
int DeleteEach(const Layer<T>& layer, const std::string& kernel) {
  using Sum = Accumulator<T>;
  SCOPED_TRACE(kernel);
  const std::string& ptx = ProductPtx();
  const std::vector<Sum> want = ProductRun<T>(layer).template Rows<Sum>(0, layer.rows);
  int deleted = 0;
  for (const std::string instruction : {"bar.sync", "cp.async.wait_group"}) {
    const std::vector<size_t> places = PlacesOf(ptx, kernel, instruction);
    for (size_t i = 0; i < places.size(); ++i, ++deleted) {
      ProductRun<T> run(layer, Without(ptx, places[i]));
      run.m.options.max_reports = 1;
      const std::vector<Sum> got = run.template Rows<Sum>(0, layer.rows);
      EXPECT_TRUE(!run.m.reports.empty() || !SameBits(got, want)) << instruction << " " << i;
    }
  }
  return deleted;
}

TEST_F(PtxProduct, EachBarrierAndWaitIsMissedWhenItIsDeleted) {
  for (const int64_t rows : {16, 40, 130}) {
    const Layer<BFloat16> layer(11, rows, (cuda::TileOf(rows).stages + 2) * cuda::kProductDepth + 8, 70, false);
    EXPECT_GE(DeleteEach(layer, MmaKernelOf(cuda::TileOf(rows))), 2);
  }
  EXPECT_GE(DeleteEach(Layer<float>(12, 16, 50, 70), PlainKernelOf<float>(16)), 2);
  EXPECT_GE(DeleteEach(Layer<float>(13, 64, 50, 70), PlainKernelOf<float>(64)), 2);
}

}  // namespace
}  // namespace ingot::standin::ptx
