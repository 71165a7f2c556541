#include "standin/ptx/matrix_sum.h"

#include "standin/ptx/float.h"

namespace ingot::standin::ptx {
namespace {

// Products of the types that mma takes are exact in fp32 but for halves of extreme exponents, where fma keeps them so.
void Ascending(int depth, const float (&a)[16][16], const float (&b)[8][16], float (&sum)[16][8]) {
  float columns[16][8];
  for (int k = 0; k < depth; ++k) {
    for (int j = 0; j < 8; ++j) columns[k][j] = b[j][k];
  }
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < depth; ++k) {
      for (int j = 0; j < 8; ++j) sum[i][j] = std::fma(a[i][k], columns[k][j], sum[i][j]);
    }
  }
}

// Parameters of the model for Ampere (table 4): fraction bits that the aligned terms keep, and the exponent that a zero counts with.
constexpr int kKept = 24;
constexpr int kZeroExponent = -132, kZeroExponentHalf = -21;
constexpr int kLeastExponent = -126, kLeastExponentHalf = -14;  // of normal numbers

// The exponent in a number's field: that of a subnormal number is the least.
int Exponent(double x, int least) { return std::max(std::ilogb(x), least); }

// An exact sum as fp32, cut off; what is too great becomes infinity all the same.
float CutOff(double exact) {
  if (std::fabs(exact) >= 0x1p128) return static_cast<float>(exact);
  const auto nearest = static_cast<float>(exact);
  return std::fabs(nearest) > std::fabs(exact) ? std::nextafterf(nearest, 0.0f) : nearest;
}

// Adds `count` exact products to `sum`. All terms are aligned to the greatest exponent and cut off, added exactly, and the result is cut off
// (fp32) or rounded to the nearest even number (fp16).
float AddAligned(const MatrixShape& shape, float sum, const float* a, const float* b, int count) {
  double terms[9] = {sum};
  double plain = sum;
  const int least = shape.type == MatrixType::kHalf ? kLeastExponentHalf : kLeastExponent;
  int greatest = shape.half_sums ? kZeroExponentHalf : kZeroExponent;
  if (sum != 0) greatest = std::max(greatest, Exponent(sum, shape.half_sums ? kLeastExponentHalf : kLeastExponent));
  for (int k = 0; k < count; ++k) {
    const double product = static_cast<double>(a[k]) * b[k];
    terms[k + 1] = product;
    plain += product;
    // The exponent of a product is the sum of its factors', before it is normalized.
    if (product != 0 && std::isfinite(product)) {
      greatest = std::max(greatest, Exponent(a[k], least) + Exponent(b[k], least));
    }
  }
  if (!std::isfinite(plain)) return static_cast<float>(plain);
  int64_t total = 0;
  for (int k = 0; k <= count; ++k) total += static_cast<int64_t>(std::trunc(std::ldexp(terms[k], kKept - greatest)));
  const double exact = std::ldexp(static_cast<double>(total), greatest - kKept);
  return shape.half_sums ? Half::ToFloat(Half::From(exact)) : CutOff(exact);
}

// A100 does 8 products of halves or 4 of tf32 at a time; deeper shapes are chains of them.
void Aligned(const MatrixShape& shape, const float (&a)[16][16], const float (&b)[8][16], float (&sum)[16][8]) {
  const int step = std::min<int>(shape.depth, shape.type == MatrixType::kTf32 ? 4 : 8);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      for (int k = 0; k < shape.depth; k += step) sum[i][j] = AddAligned(shape, sum[i][j], &a[i][k], &b[j][k], step);
    }
  }
}

}  // namespace

void MultiplyAdd(const MatrixShape& shape, bool ascending, const float (&a)[16][16], const float (&b)[8][16],
                 const float (&c)[16][8], float (&result)[16][8]) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) result[i][j] = c[i][j];
  }
  if (ascending)
    Ascending(shape.depth, a, b, result);
  else
    Aligned(shape, a, b, result);
  for (auto& row : result) {
    for (float& x : row) x = Canonical(x);
  }
}

}  // namespace ingot::standin::ptx
