// The inner loops of products through tile registers in plain C++. On machines without tile registers they check the
// cut of a product into blocks, terms and passes (product.cc).
#pragma once

#include <algorithm>

#include "kernels/products/inner_product.h"

namespace ingot::kernels::emulated {

using inner::kPanel;
using inner::kStepNumbers;

// 32 rows of 32 numbers per panel and step; missing numbers are zero.
inline void Pack(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to) {
  const int64_t padded = (depth + kStepNumbers - 1) / kStepNumbers * kStepNumbers;
  for (int64_t row = 0; row < (rows + kPanel - 1) / kPanel * kPanel; ++row) {
    for (int64_t k = 0; k < padded; ++k) {
      BFloat16& place = to[row / kPanel * kPanel * padded + (k / kStepNumbers * kPanel + row % kPanel) * kStepNumbers +
                           k % kStepNumbers];
      place = row < rows && k < depth ? from[across ? k * stride + row : row * stride + k] : BFloat16{};
    }
  }
}

inline void Multiply(const BFloat16* a, const BFloat16* b, int64_t panels, int64_t steps, float* c, int64_t ldc,
                     bool add, inner::Ahead& ahead) {
  const int64_t panel_numbers = steps * kPanel * kStepNumbers;
  for (int64_t i = 0; i < kPanel; ++i) {
    for (int64_t j = 0; j < panels * kPanel; ++j) {
      float sum = add ? c[i * ldc + j] : 0;
      for (int64_t k = 0; k < steps * kStepNumbers; ++k) {
        const int64_t in_step = k / kStepNumbers * kPanel * kStepNumbers + k % kStepNumbers;
        sum += ToFloat(a[in_step + i * kStepNumbers]) *
               ToFloat(b[j / kPanel * panel_numbers + in_step + j % kPanel * kStepNumbers]);
      }
      c[i * ldc + j] = sum;
    }
  }
  ahead.rows = 0;  // prefetching changes no number
}

inline void Add(float* to, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += x[i];
}

inline constexpr inner::TileKernels kTiles = {Pack, Pack, Multiply, Add};

}  // namespace ingot::kernels::emulated
