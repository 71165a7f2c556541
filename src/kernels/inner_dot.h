// Dot products of rows with columns, generic over a policy of attention_simd.h, whose rules hold here too.
#pragma once

#include "kernels/attention_simd.h"
#include "kernels/inner.h"

namespace ingot::kernels::INGOT_ISA {

constexpr int64_t kDotBlockRows = 96, kDotBlockCols = 64;

// R rows against four columns.
template <typename P, int R>
void DotBlock(const typename P::T* a, int64_t lda, const typename P::T* const* b, int64_t depth, typename P::Acc* s,
              int64_t lds, bool add) {
  using X = Vec<typename P::Acc>;
  constexpr int64_t kNumbers = X::kWidth * P::kPack;
  V<typename P::Acc> acc[R][4] = {};
  const typename P::T *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3];
  int64_t d = 0;
  for (; d + kNumbers <= depth; d += kNumbers) {
    const V<typename P::Acc> x0 = P::Words(b0 + d), x1 = P::Words(b1 + d), x2 = P::Words(b2 + d), x3 = P::Words(b3 + d);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const V<typename P::Acc> y = P::Words(a + r * lda + d);
      acc[r][0] = P::Madd(y, x0, acc[r][0]);
      acc[r][1] = P::Madd(y, x1, acc[r][1]);
      acc[r][2] = P::Madd(y, x2, acc[r][2]);
      acc[r][3] = P::Madd(y, x3, acc[r][3]);
    }
  }
  if (d < depth) {
    const int64_t n = depth - d;
    const V<typename P::Acc> x0 = P::WordsN(b0 + d, n), x1 = P::WordsN(b1 + d, n), x2 = P::WordsN(b2 + d, n),
                             x3 = P::WordsN(b3 + d, n);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const V<typename P::Acc> y = P::WordsN(a + r * lda + d, n);
      acc[r][0] = P::Madd(y, x0, acc[r][0]);
      acc[r][1] = P::Madd(y, x1, acc[r][1]);
      acc[r][2] = P::Madd(y, x2, acc[r][2]);
      acc[r][3] = P::Madd(y, x3, acc[r][3]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) X::Sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3], s + r * lds, add);
}

// Rows in blocks of R, then the remainder in one smaller block.
template <typename P, int R>
void DotRows(const typename P::T* a, int64_t lda, int64_t rows, const typename P::T* const* b, int64_t depth,
             typename P::Acc* s, int64_t lds, bool add) {
  if constexpr (R > 0) {
    int64_t r = 0;
    for (; r + R <= rows; r += R) DotBlock<P, R>(a + r * lda, lda, b, depth, s + r * lds, lds, add);
    if (r < rows) DotRows<P, R - 1>(a + r * lda, lda, rows - r, b, depth, s + r * lds, lds, add);
  }
}

template <typename P>
void Dot(const typename P::T* a, int64_t lda, int64_t rows, const typename P::T* const* b, int64_t cols, int64_t depth,
         typename P::Acc* s, int64_t lds, bool add) {
  constexpr int kBlock = Vec<typename P::Acc>::kDotRows;
  // Row blocks are the outer loop: a block of a stays in the first-level cache while b streams past it.
  for (int64_t r = 0; r < rows; r += kBlock) {
    const int64_t n = rows - r < kBlock ? rows - r : kBlock;
    int64_t j = 0;
    for (; j + 4 <= cols; j += 4) {
      DotRows<P, kBlock>(a + r * lda, lda, n, b + j, depth, s + r * lds + j, lds, add);
    }
    if (j < cols) {
      const typename P::T* last[4];
      for (int64_t c = 0; c < 4; ++c) last[c] = b[j + c < cols ? j + c : cols - 1];
      DotRows<P, kBlock>(a + r * lda, lda, n, last, depth, s + r * lds + j, lds, add);
    }
  }
}

}  // namespace ingot::kernels::INGOT_ISA
