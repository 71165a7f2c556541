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

// Fraction bits that the aligned terms keep: those of fp32 and one more.
constexpr int kKept = 24;

// Adds `count` exact products to `sum`. All terms are aligned to the greatest exponent and cut off, and so is the result.
float AddAligned(float sum, const float* a, const float* b, int count) {
  double terms[9] = {sum};
  bool finite = std::isfinite(sum);
  double plain = sum;
  int greatest = sum == 0 ? -1000 : std::ilogb(sum);
  for (int k = 0; k < count; ++k) {
    const double product = static_cast<double>(a[k]) * b[k];
    terms[k + 1] = product;
    plain += product;
    finite &= std::isfinite(product);
    // The exponent of a product is the sum of its factors', before it is normalized.
    if (product != 0 && std::isfinite(product)) greatest = std::max(greatest, std::ilogb(a[k]) + std::ilogb(b[k]));
  }
  if (!finite) return static_cast<float>(plain);
  if (greatest == -1000) return static_cast<float>(plain);
  int64_t total = 0;
  for (int k = 0; k <= count; ++k) total += static_cast<int64_t>(std::trunc(std::ldexp(terms[k], kKept - greatest)));
  const double exact = std::ldexp(static_cast<double>(total), greatest - kKept);
  const auto nearest = static_cast<float>(exact);
  return std::fabs(nearest) > std::fabs(exact) ? std::nextafterf(nearest, 0.0f) : nearest;
}

void Aligned(const MatrixShape& shape, const float (&a)[16][16], const float (&b)[8][16], float (&sum)[16][8]) {
  const int step = std::min<int>(shape.depth, shape.type == MatrixType::kTf32 ? 4 : 8);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      for (int k = 0; k < shape.depth; k += step) sum[i][j] = AddAligned(sum[i][j], &a[i][k], &b[j][k], step);
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
