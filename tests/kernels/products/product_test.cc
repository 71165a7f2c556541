#include "kernels/products/product.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/attention/attention_reference.h"
#include "kernels/cuda/emulated_tiles.h"
#include "kernels/layers.h"

namespace ingot::kernels {
namespace {

using testing::RandomVector;
using testing::Threads;

struct Matrix {
  Matrix(std::mt19937_64& rng, int64_t outer, int64_t depth, bool across)
      : numbers(RandomVector<BFloat16>(rng, (outer + kGap) * (depth + kGap))),
        side{numbers.data(), (across ? outer : depth) + kGap, across} {}
  double at(int64_t i, int64_t k) const {
    return ToFloat(side.data[side.across ? k * side.stride + i : i * side.stride + k]);
  }

  static constexpr int64_t kGap = 3;  // between rows: a stride is not a width
  std::vector<BFloat16> numbers;
  ProductSide side;
};

// With this machine's tile registers, and with the emulated ones on machines without them.
class TileProductTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!emulated() && !HasTileProduct()) GTEST_SKIP() << "no tile registers in use";
  }
  static bool emulated() { return GetParam(); }
  static void TileProduct(const ProductArgs& args, const ParallelFor& parallel) {
    if (emulated()) return inner::TileProductBy(emulated::kTiles, args, parallel);
    kernels::TileProduct(args, parallel);
  }
};
INSTANTIATE_TEST_SUITE_P(Products, TileProductTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Emulated" : "Tiles"; });

// Sizes around a tile, a panel and the blocks; each side along its depth and across it.
TEST_P(TileProductTest, IsTheSums) {
  std::mt19937_64 rng(1);
  struct Size {
    int64_t m, n, depth;
  };
  for (const Size& size : {Size{1, 1, 1},
                           {5, 7, 3},
                           {16, 32, 32},
                           {17, 31, 33},
                           {33, 65, 64},
                           {130, 40, 513},
                           {40, 513, 100},
                           {70, 530, 1100},
                           {1030, 40, 1030},
                           {300, 300, 2100}}) {
    for (int lies = 0; lies < 4; ++lies) {
      SCOPED_TRACE(std::to_string(size.m) + "x" + std::to_string(size.n) + "x" + std::to_string(size.depth) + " lies " +
                   std::to_string(lies));
      const Matrix a(rng, size.m, size.depth, (lies & 1) != 0), b(rng, size.n, size.depth, (lies & 2) != 0);
      const auto bias = RandomVector<BFloat16>(rng, size.n);
      std::vector<float> wide(size.m * size.n + 1, 77), more;
      std::vector<BFloat16> narrow(size.m * size.n + 1, ToBFloat16(77));
      const ProductTerm term{a.side, b.side, size.depth};
      const ProductArgs args{.terms = {&term, 1}, .m = size.m, .n = size.n, .bias = bias.data()};
      ProductArgs to_wide = args, to_narrow = args, plus = args;
      to_wide.wide = wide.data();
      TileProduct(to_wide, Threads(2));
      to_narrow.c = narrow.data();
      TileProduct(to_narrow, Serial);
      more.assign(wide.size(), 0.5f);
      plus.wide = more.data();
      plus.add = true;
      TileProduct(plus, Threads(3));
      EXPECT_EQ(wide.back(), 77) << "wrote past the end";
      EXPECT_EQ(ToFloat(narrow.back()), 77) << "wrote past the end";
      // Products of bf16 are exact in fp32: only the rounding of the sums remains.
      const double tolerance = 1e-6 * std::sqrt(static_cast<double>(size.depth)) * 4;
      for (int64_t i = 0; i < size.m; i += size.m > 200 ? 97 : 1) {
        for (int64_t j = 0; j < size.n; ++j) {
          double want = ToFloat(bias[j]);
          for (int64_t k = 0; k < size.depth; ++k) want += a.at(i, k) * b.at(j, k);
          const float got = wide[i * size.n + j];
          ASSERT_NEAR(got, want, tolerance) << i << " " << j;
          ASSERT_EQ(ToFloat(narrow[i * size.n + j]), ToFloat(ToBFloat16(got))) << i << " " << j;
          ASSERT_EQ(more[i * size.n + j], 0.5f + got) << i << " " << j;
        }
      }
    }
  }
}

// Whatever the layout of the matrices, the number of rows and columns, and the threads.
TEST_P(TileProductTest, AnElementIsOneChainOfOperations) {
  std::mt19937_64 rng(2);
  constexpr int64_t kM = 150, kN = 600, kDepth = 1300;
  const auto a = RandomVector<BFloat16>(rng, kM * kDepth), b = RandomVector<BFloat16>(rng, kN * kDepth);
  std::vector<BFloat16> a_across(a.size()), b_across(b.size());
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t k = 0; k < kDepth; ++k) a_across[k * kM + i] = a[i * kDepth + k];
  }
  for (int64_t j = 0; j < kN; ++j) {
    for (int64_t k = 0; k < kDepth; ++k) b_across[k * kN + j] = b[j * kDepth + k];
  }
  std::vector<float> want(kM * kN), got(kM * kN);
  ProductTerm term{{a.data(), kDepth}, {b.data(), kDepth}, kDepth};
  ProductArgs args{.terms = {&term, 1}, .m = kM, .n = kN};
  args.wide = want.data();
  TileProduct(args, Serial);
  args.wide = got.data();
  for (int lies = 1; lies < 4; ++lies) {
    term.a = (lies & 1) != 0 ? ProductSide{a_across.data(), kM, true} : ProductSide{a.data(), kDepth};
    term.b = (lies & 2) != 0 ? ProductSide{b_across.data(), kN, true} : ProductSide{b.data(), kDepth};
    TileProduct(args, Threads(3));
    EXPECT_EQ(got, want) << lies;
  }
  // In two terms, cut at the end of a step, the second one across.
  const ProductTerm terms[2] = {{{a.data(), kDepth}, {b.data(), kDepth}, 96},
                                {{a_across.data() + 96 * kM, kM, true}, {b.data() + 96, kDepth}, kDepth - 96}};
  args.terms = terms;
  got.assign(got.size(), 0);
  TileProduct(args, Threads(3));
  EXPECT_EQ(got, want);
  if (emulated()) return;
  // A linear layer's few rows, which take another path, and the same rows among many.
  for (const int64_t rows : {1, 2, 16, 17, 40, 150}) {
    std::vector<float> some(rows * kN);
    LinearArgs<BFloat16> linear{a.data(), b.data(), nullptr, nullptr, rows, kDepth, kN, 0, some.data()};
    Linear(linear, Threads(2));
    EXPECT_TRUE(std::equal(some.begin(), some.end(), want.begin())) << rows;
  }
}

}  // namespace
}  // namespace ingot::kernels
