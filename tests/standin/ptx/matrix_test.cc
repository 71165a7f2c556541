// mma, ldmatrix and movmatrix against products of whole matrices. The layouts are the ISA's formulas for row and column of element i of lane
// (groupID = lane / 4, threadID_in_group = lane % 4).
#include <gtest/gtest.h>

#include <random>

#include "standin/ptx/half.h"
#include "standin/ptx/matrix_sum.h"
#include "standin/ptx/test_kernel.h"

namespace ingot::standin::ptx {
namespace {

struct Shape {
  const char* name;
  MatrixType type;
  int depth;
  bool half_sums;
};

constexpr Shape kShapes[] = {
    {"m16n8k16.row.col.f32.f16.f16.f32", MatrixType::kHalf, 16, false},
    {"m16n8k8.row.col.f32.f16.f16.f32", MatrixType::kHalf, 8, false},
    {"m16n8k16.row.col.f16.f16.f16.f16", MatrixType::kHalf, 16, true},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", MatrixType::kBfloat, 16, false},
    {"m16n8k8.row.col.f32.bf16.bf16.f32", MatrixType::kBfloat, 8, false},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", MatrixType::kTf32, 8, false},
    {"m16n8k4.row.col.f32.tf32.tf32.f32", MatrixType::kTf32, 4, false},
};

// Row and depth of element i of A, as the ISA states them for .f16 and .bf16 (two to a register) and for .tf32.
std::pair<int, int> PlaceOfA(const Shape& s, int lane, int i) {
  const int group = lane / 4, thread = lane % 4;
  if (s.type == MatrixType::kTf32) return {i % 2 == 0 ? group : group + 8, i < 2 ? thread : thread + 4};
  if (s.depth == 8) return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
  return {i < 2 || (i >= 4 && i < 6) ? group : group + 8, thread * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
// Depth and column of element i of B.
std::pair<int, int> PlaceOfB(const Shape& s, int lane, int i) {
  const int group = lane / 4, thread = lane % 4;
  if (s.type == MatrixType::kTf32) return {i == 0 ? thread : thread + 4, group};
  return {thread * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
}

uint32_t BitsOf(const Shape& s, float x) {
  if (s.type == MatrixType::kHalf) return Half::From(x);
  return s.type == MatrixType::kBfloat ? Bfloat::From(x) : std::bit_cast<uint32_t>(x);
}

struct Product {
  float a[16][16] = {}, b[16][8] = {}, c[16][8] = {};
  std::vector<uint32_t> registers;  // [lane][12]: a, b, c
  int a_count, b_count, c_count;
};

// Small whole numbers, whose products and sums are exact in every type and order.
Product Make(const Shape& s, std::mt19937_64& rng) {
  Product p;
  const auto number = [&rng] { return static_cast<float>(static_cast<int>(rng() % 9) - 4); };
  for (auto& row : p.a)
    for (float& x : row) x = number();
  for (auto& row : p.b)
    for (float& x : row) x = number();
  for (auto& row : p.c)
    for (float& x : row) x = number();
  const int pack = s.type == MatrixType::kTf32 ? 1 : 2;
  p.a_count = s.depth * 16 / pack / 32, p.b_count = p.a_count / 2, p.c_count = s.half_sums ? 2 : 4;
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t registers[12] = {};
    for (int i = 0; i < p.a_count * pack; ++i) {
      const auto [row, depth] = PlaceOfA(s, lane, i);
      registers[i / pack] |= BitsOf(s, p.a[row][depth]) << (i % pack * 16);
    }
    for (int i = 0; i < p.b_count * pack; ++i) {
      const auto [depth, column] = PlaceOfB(s, lane, i);
      registers[4 + i / pack] |= BitsOf(s, p.b[depth][column]) << (i % pack * 16);
    }
    for (int i = 0; i < 4; ++i) {
      const float x = p.c[lane / 4 + (i < 2 ? 0 : 8)][lane % 4 * 2 + (i & 1)];
      if (s.half_sums)
        registers[8 + i / 2] |= static_cast<uint32_t>(Half::From(x)) << (i % 2 * 16);
      else
        registers[8 + i] = std::bit_cast<uint32_t>(x);
    }
    p.registers.insert(p.registers.end(), registers, registers + 12);
  }
  return p;
}

std::string List(int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "%r" : ", %r") + std::to_string(first + i);
  return text + "}";
}

TEST(PtxMatrix, MultipliesEveryShape) {
  std::mt19937_64 rng(1);
  for (const Shape& s : kShapes) {
    for (const SumOrder order : {SumOrder::kAscending, SumOrder::kTensorCore}) {
      SCOPED_TRACE(s.name);
      const Product p = Make(s, rng);
      TestMemory memory;
      const uint64_t in = memory.Put(std::span<const uint32_t>(p.registers)), out = memory.Allocate(32 * 16, 256);
      Options options;
      options.sum = order;
      const Outcome outcome = RunText(
          KernelText("mul.wide.u32 %rd5, %r0, 48;\nadd.u64 %rd5, %rd1, %rd5;\nmul.wide.u32 %rd6, %r0, 16;\nadd.u64 "
                     "%rd6, %rd0, %rd6;\n"
                     "ld.global.v4.u32 " +
                     List(10, 4) + ", [%rd5];\nld.global.v4.u32 " + List(20, 4) + ", [%rd5+16];\nld.global.v4.u32 " +
                     List(30, 4) + ", [%rd5+32];\nmma.sync.aligned." + s.name + " " + List(40, p.c_count) + ", " +
                     List(10, p.a_count) + ", " + List(20, p.b_count) + ", " + List(30, p.c_count) +
                     ";\nst.global.v4.u32 [%rd6], " + List(40, 4) + ";\n"),
          memory, {out, in}, {{1, 1, 1}, {32, 1, 1}, 0}, options);
      EXPECT_EQ(Kinds(outcome), "");
      const std::vector<uint32_t> got = memory.Get<uint32_t>(out, 128);
      for (int lane = 0; lane < 32; ++lane) {
        for (int i = 0; i < 4; ++i) {
          const int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
          float want = p.c[row][column];
          for (int k = 0; k < s.depth; ++k) want += p.a[row][k] * p.b[k][column];
          const uint32_t bits = s.half_sums ? got[4 * lane + i / 2] >> (i % 2 * 16) & 0xffff : got[4 * lane + i];
          EXPECT_EQ(s.half_sums ? Half::ToFloat(static_cast<uint16_t>(bits)) : std::bit_cast<float>(bits), want)
              << row << " " << column;
        }
      }
    }
  }
}

// m8n8k4 of fp64, with an element of a and b in each lane and two of c. Whole numbers are exact in every order.
TEST(PtxMatrix, MultipliesDoubles) {
  std::mt19937_64 rng(3);
  double a[8][4], b[4][8], c[8][8];
  std::vector<double> in;
  const auto number = [&rng] { return static_cast<double>(static_cast<int>(rng() % 2001) - 1000); };
  for (auto& row : a)
    for (double& x : row) x = number();
  for (auto& row : b)
    for (double& x : row) x = number();
  for (auto& row : c)
    for (double& x : row) x = number();
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane / 4, thread = lane % 4;
    for (const double x : {a[group][thread], b[thread][group], c[group][2 * thread], c[group][2 * thread + 1]})
      in.push_back(x);
  }
  TestMemory memory;
  const uint64_t from = memory.Put(std::span<const double>(in)), out = memory.Allocate(512, 256);
  const Outcome outcome = RunText(
      KernelText(
          "mul.wide.u32 %rd5, %r0, 32;\nadd.u64 %rd5, %rd1, %rd5;\nmul.wide.u32 %rd6, %r0, 16;\nadd.u64 %rd6, %rd0, "
          "%rd6;\nld.global.v2.f64 {%fd1, %fd2}, [%rd5];\nld.global.v2.f64 {%fd3, %fd4}, [%rd5+16];\n"
          "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd5, %fd6}, {%fd1}, {%fd2}, {%fd3, %fd4};\n"
          "st.global.v2.f64 [%rd6], {%fd5, %fd6};\n"),
      memory, {out, from}, {{1, 1, 1}, {32, 1, 1}, 0});
  EXPECT_EQ(Kinds(outcome), "");
  const std::vector<double> got = memory.Get<double>(out, 64);
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 8; ++column) {
      double want = c[row][column];
      for (int k = 0; k < 4; ++k) want += a[row][k] * b[k][column];
      EXPECT_EQ(got[8 * row + column], want) << row << " " << column;
    }
  }
}

// 2^24 + eight ones: ascending fp32 rounds each one away; a tensor core aligns all terms of a step and keeps one more bit.
TEST(PtxMatrix, SumOrdersDiffer) {
  float a[16][16] = {}, b[8][16] = {}, c[16][8] = {}, ascending[16][8], core[16][8];
  for (int k = 0; k < 8; ++k) a[0][k] = b[0][k] = 1;
  c[0][0] = 0x1p24f;
  const MatrixShape shape{MatrixType::kBfloat, 8, false};
  MultiplyAdd(shape, true, a, b, c, ascending);
  MultiplyAdd(shape, false, a, b, c, core);
  EXPECT_EQ(ascending[0][0], 0x1p24f);
  EXPECT_EQ(core[0][0], 0x1p24f + 8);
  // Bits below the kept ones are cut off: ten quarters are nothing.
  for (int k = 0; k < 8; ++k) a[0][k] = 0.25f;
  MultiplyAdd(shape, false, a, b, c, core);
  EXPECT_EQ(core[0][0], 0x1p24f);
}

// By hand, from the rules in matrix_sum.cc. All products but those named are zero.
float CoreSum(MatrixType type, bool half_sums, float c, std::vector<std::pair<float, float>> products) {
  float a[16][16] = {}, b[8][16] = {}, sums[16][8] = {}, result[16][8];
  for (size_t k = 0; k < products.size(); ++k) {
    a[0][k] = products[k].first;
    b[0][k] = products[k].second;
  }
  sums[0][0] = c;
  MultiplyAdd({type, static_cast<uint8_t>(type == MatrixType::kTf32 ? 8 : 16), half_sums}, false, a, b, sums, result);
  return result[0][0];
}

TEST(PtxMatrix, TensorCoreSumsByHand) {
  using enum MatrixType;
  // 24 fraction bits below the greatest exponent, 0: 2^-24 is kept until the result is cut off to 23 bits, 2^-25 is not.
  EXPECT_EQ(CoreSum(kBfloat, false, 1, {{0x1p-12f, 0x1p-12f}, {0x1p-12f, 0x1p-12f}}), 1 + 0x1p-23f);
  EXPECT_EQ(CoreSum(kBfloat, false, 1, {{0x1p-12f, 0x1p-13f}, {0x1p-12f, 0x1p-13f}}), 1);
  // Toward zero on both sides.
  EXPECT_EQ(CoreSum(kBfloat, false, -1, {{0x1p-12f, -0x1p-12f}}), -1);
  // The second eight products are a step of their own: 1 + 2^-24 is cut off before 2^-24 comes.
  std::vector<std::pair<float, float>> two(16);
  two[0] = two[8] = {0x1p-12f, 0x1p-12f};
  EXPECT_EQ(CoreSum(kBfloat, false, 1, two), 1);
  // tf32 has four in a step.
  two.assign(8, {});
  two[0] = two[4] = {0x1p-12f, 0x1p-12f};
  EXPECT_EQ(CoreSum(kTf32, false, 1, two), 1);
  // A product's exponent is the sum of its factors': 1.5 * 1.5 = 2.25 has 0, so that 2^-24 is kept.
  EXPECT_EQ(CoreSum(kBfloat, false, -2.25f, {{1.5f, 1.5f}, {0x1p-12f, 0x1p-12f}}), 0);  // the sum's exponent is 1
  EXPECT_EQ(CoreSum(kBfloat, false, 0, {{1.5f, 1.5f}, {-1.5f, 1.5f}, {0x1p-12f, 0x1p-12f}}), 0x1p-24f);
  // A subnormal half counts with the exponent -14: 2^-20 * 2^-4 with -18, so that 2^-42 is kept and 2^-43 is not.
  EXPECT_EQ(CoreSum(kHalf, false, 0x1p-43f, {{0x1p-20f, 0x1p-4f}}), 0x1p-24f);
  EXPECT_EQ(CoreSum(kHalf, false, 0x1p-42f, {{0x1p-20f, 0x1p-4f}}), 0x1p-24f + 0x1p-42f);
  // fp32 overflows to infinity, though it is cut off.
  EXPECT_EQ(CoreSum(kBfloat, false, 0x1.fffffep127f, {{0x1p64f, 0x1p63f}}), INFINITY);
  // fp16 sums are rounded to the nearest even after each step: 2048 + 1 is 2048, 2048 + 3 is 2052.
  EXPECT_EQ(CoreSum(kHalf, true, 2048, {{1, 1}}), 2048);
  EXPECT_EQ(CoreSum(kHalf, true, 2048, {{1, 3}}), 2052);
  two.assign(16, {});
  two[0] = two[8] = {1, 1};
  EXPECT_EQ(CoreSum(kHalf, true, 2048, two), 2048);
}

// Row r of matrix m is the numbers 64 m + 8 r + 0..7, at 16 (8 m + r).
TEST(PtxMatrix, LoadsMatricesStraightAndTransposed) {
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    TestMemory memory;
    const uint64_t out = memory.Allocate(512, 256);
    const std::string body = std::string(R"(
.shared .align 16 .b8 buffer[512];
mov.u32 %r1, buffer;
shl.b32 %r2, %r0, 4;
add.u32 %r2, %r2, %r1;
shl.b32 %r3, %r0, 3;
mad.lo.u32 %r3, %r3, 65537, 65536;
add.u32 %r4, %r3, 131074;
add.u32 %r5, %r4, 131074;
add.u32 %r6, %r5, 131074;
st.shared.v4.b32 [%r2], {%r3, %r4, %r5, %r6};
bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m8n8.x4)") +
                             (transposed ? ".trans" : "") + R"(.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];
mul.wide.u32 %rd5, %r0, 16;
add.u64 %rd5, %rd0, %rd5;
st.global.v4.u32 [%rd5], {%r10, %r11, %r12, %r13};
)";
    EXPECT_EQ(Kinds(RunText(KernelText(body), memory, {out})), "");
    const std::vector<uint16_t> got = memory.Get<uint16_t>(out, 256);
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 8; ++i) {
        const int matrix = i / 2, row = lane / 4, column = lane % 4 * 2 + i % 2;
        EXPECT_EQ(got[8 * lane + i], 64 * matrix + (transposed ? 8 * column + row : 8 * row + column));
      }
    }
  }
}

TEST(PtxMatrix, TransposesAMatrixInRegisters) {
  TestMemory memory;
  const uint64_t out = memory.Allocate(128, 256);
  const std::string body =
      "shl.b32 %r1, %r0, 1;\nmad.lo.u32 %r1, %r1, 65537, 65536;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\n"
      "mul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd0, %rd5;\nst.global.u32 [%rd5], %r2;\n";
  EXPECT_EQ(Kinds(RunText(KernelText(body), memory, {out})), "");
  const std::vector<uint16_t> got = memory.Get<uint16_t>(out, 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(got[i], i % 8 * 8 + i / 8);
}

}  // namespace
}  // namespace ingot::standin::ptx
