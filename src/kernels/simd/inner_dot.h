// Computes dot products of rows and columns, generic over a policy in simd_words.h. That header's rules also apply
// here.
#pragma once

#include "kernels/simd/inner.h"
#include "kernels/simd/simd_words.h"

namespace ingot::kernels::INGOT_ISA {

constexpr int64_t kDotBlockRows = 96, kDotBlockCols = 64;

// Prefetches the next four columns. Each step in the preceding blocks prefetches `lines` of their cache lines, so that
// memory loads overlap with computation.
template <typename T>
class Ahead {
 public:
  static constexpr int64_t kLine = 64 / sizeof(T);  // numbers per cache line

  // Distributes the prefetches over `steps` steps. Null columns = nothing to prefetch.
  Ahead(const T* const* columns, int64_t depth, int64_t steps)
      : columns_(columns),
        end_(columns == nullptr ? 0 : 4 * ((depth + kLine - 1) / kLine)),
        lines_(steps > 0 ? (end_ + steps - 1) / steps : 0) {}

  void Step() {
    for (int64_t i = 0; i < lines_ && at_ < end_; ++i, ++at_) {
      __builtin_prefetch(columns_[at_ % 4] + at_ / 4 * kLine, 0, 2);
    }
  }

 private:
  const T* const* columns_;
  int64_t end_, lines_, at_ = 0;
};

// Computes R rows times four columns.
template <typename P, int R>
void DotBlock(const typename P::T* a, int64_t lda, const typename P::T* const* b, int64_t depth, typename P::Acc* s,
              int64_t lds, bool add, Ahead<typename P::T>& ahead) {
  using X = Vec<typename P::Acc>;
  constexpr int64_t kNumbers = X::kWidth * P::kPack;
  V<typename P::Acc> acc[R][4] = {};
  const typename P::T *b0 = b[0], *b1 = b[1], *b2 = b[2], *b3 = b[3];
  int64_t d = 0;
  for (; d + kNumbers <= depth; d += kNumbers) {
    ahead.Step();
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

// Processes rows in blocks of R, and the remaining rows in one smaller block.
template <typename P, int R>
void DotRows(const typename P::T* a, int64_t lda, int64_t rows, const typename P::T* const* b, int64_t depth,
             typename P::Acc* s, int64_t lds, bool add, Ahead<typename P::T>& ahead) {
  if constexpr (R > 0) {
    int64_t r = 0;
    for (; r + R <= rows; r += R) DotBlock<P, R>(a + r * lda, lda, b, depth, s + r * lds, lds, add, ahead);
    if (r < rows) DotRows<P, R - 1>(a + r * lda, lda, rows - r, b, depth, s + r * lds, lds, add, ahead);
  }
}

template <typename P>
void Dot(const typename P::T* a, int64_t lda, int64_t rows, const typename P::T* const* b, int64_t cols, int64_t depth,
         typename P::Acc* s, int64_t lds, bool add) {
  using T = typename P::T;
  constexpr int64_t kBlock = Vec<typename P::Acc>::kDotRows, kNumbers = Vec<typename P::Acc>::kWidth * P::kPack;
  constexpr int64_t kNear = 48 * 1024;  // bytes of a that are cheap to read repeatedly
  // With many rows, the outer loop is over row blocks, so that a block of a stays in the L1 cache while b is
  // read. With few rows, all of them are multiplied by four columns at a time, so that b is read from memory only
  // once.
  const int64_t group = rows * depth * static_cast<int64_t>(sizeof(T)) <= kNear ? rows : kBlock;
  for (int64_t r = 0; r < rows; r += group) {
    const int64_t n = rows - r < group ? rows - r : group, steps = (n + kBlock - 1) / kBlock * (depth / kNumbers);
    for (int64_t j = 0; j < cols; j += 4) {
      const T* last[4];
      const T* const* columns = b + j;
      if (j + 4 > cols) {
        for (int64_t c = 0; c < 4; ++c) last[c] = b[j + c < cols ? j + c : cols - 1];
        columns = last;
      }
      Ahead<T> ahead(group == rows && j + 8 <= cols ? b + j + 4 : nullptr, depth, steps);
      DotRows<P, kBlock>(a + r * lda, lda, n, columns, depth, s + r * lds + j, lds, add, ahead);
    }
  }
}

}  // namespace ingot::kernels::INGOT_ISA
