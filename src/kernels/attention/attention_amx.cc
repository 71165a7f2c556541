// Inner loops of bf16 attention for AMX. Compiled with AMX flags, so nothing here may be called before the check in
// instruction_set.cc. Products use tiles (amx.h). Everything else is from avx512bf16.
#define INGOT_ISA amx
#define INGOT_ISA_NAME "amx"
#include "kernels/attention/attention_inner.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512DQ__)
#include "kernels/attention/attention_inner_impl.inc"
#include "kernels/simd/amx.h"

namespace ingot::kernels::amx {

// Number of words along a sum's index per instruction. Packed tiles are padded with zeros to a multiple of it.
struct Tiled : Paired {
  static constexpr int kStep = kTileRows;
};

using Product = inner::Gemm<float>;

// Computes M x N tiles of c. The tiles have 16 rows or, with M = 1, the configured number. b consists of whole steps.
template <int M, int N>
void ProductBlock(const Product& g, int64_t row, int64_t col) {
  float *c = g.c + row * g.ldc + col, *below = c + kTileRows * g.ldc;
  if (g.add) {
    LoadTile<0>(c, g.ldc);
    if constexpr (N > 1) LoadTile<1>(c + kTileWords, g.ldc);
    if constexpr (M > 1) LoadTile<2>(below, g.ldc);
    if constexpr (M > 1 && N > 1) LoadTile<3>(below + kTileWords, g.ldc);
  } else {
    ZeroTile<0>();
    if constexpr (N > 1) ZeroTile<1>();
    if constexpr (M > 1) ZeroTile<2>();
    if constexpr (M > 1 && N > 1) ZeroTile<3>();
  }
  const float *a = g.a + row * g.row_step, *b = g.b + col;
  for (int64_t k = 0; k < g.depth; k += kTileRows, a += kTileWords, b += kTileRows * g.ldb) {
    LoadTile<4>(a, g.row_step);
    LoadTile<6>(b, g.ldb);
    Multiply<0, 4, 6>();
    if constexpr (N > 1) {
      LoadTile<7>(b + kTileWords, g.ldb);
      Multiply<1, 4, 7>();
    }
    if constexpr (M > 1) {
      LoadTile<5>(a + kTileRows * g.row_step, g.row_step);
      Multiply<2, 5, 6>();
    }
    if constexpr (M > 1 && N > 1) Multiply<3, 5, 7>();
  }
  StoreTile<0>(c, g.ldc);
  if constexpr (N > 1) StoreTile<1>(c + kTileWords, g.ldc);
  if constexpr (M > 1) StoreTile<2>(below, g.ldc);
  if constexpr (M > 1 && N > 1) StoreTile<3>(below + kTileWords, g.ldc);
}

template <int M>
void ProductRows(const Product& g, int64_t row) {
  int64_t col = 0;
  for (; col + 2 * kTileWords <= g.width; col += 2 * kTileWords) ProductBlock<M, 2>(g, row, col);
  if (col < g.width) ProductBlock<M, 1>(g, row, col);
}

// Skips rows with a factor of 1. Once a row has reached its largest score, its factor is 1.
inline void ScaleRows(float* c, int64_t ldc, const float* factors, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, c += ldc) {
    if (factors[r] == 1.0f) continue;
    const __m512 factor = _mm512_set1_ps(factors[r]);
    for (int64_t n = 0; n < width; n += 16) _mm512_storeu_ps(c + n, _mm512_loadu_ps(c + n) * factor);
  }
}

// The rows of a already have the tile layout: k_step 1.
void ProductOfRows(const Product& g) {
  if (g.add && g.row_scale != nullptr) ScaleRows(g.c, g.ldc, g.row_scale, g.rows, g.width);
  int64_t row = 0;
  for (; row + 2 * kTileRows <= g.rows; row += 2 * kTileRows) ProductRows<2>(g, row);
  if (row + kTileRows <= g.rows) {
    ProductRows<1>(g, row);
    row += kTileRows;
  }
  if (row < g.rows) {
    Configure(g.rows - row);
    ProductRows<1>(g, row);
    Configure(kTileRows);
  }
}

void GemmOfTiles(const Product& g) {
  if (g.k_step == 1) return ProductOfRows(g);
  // a is stored transposed (row_step 1). It is transposed back and padded with zeros, kDepth indices at a time.
  constexpr int64_t kDepth = 64;
  alignas(64) float turned[kKeys * kDepth];
  for (int64_t row = 0; row < g.rows; row += kKeys) {
    const int64_t rows = g.rows - row < kKeys ? g.rows - row : kKeys;
    for (int64_t k = 0; k < g.depth; k += kDepth) {
      const int64_t depth = g.depth - k < kDepth ? g.depth - k : kDepth;
      for (int64_t r = 0; r < rows; r += kTileRows) {
        for (int64_t at = 0; at < depth; at += kTileWords) {
          __m512 square[kTileWords] = {};
          const int64_t used = depth - at < kTileWords ? depth - at : kTileWords;
          const float* from = g.a + row + r + (k + at) * g.k_step;
          for (int64_t i = 0; i < used; ++i) square[i] = _mm512_loadu_ps(from + i * g.k_step);
          Square<float>::Transpose(square);
#pragma GCC unroll 16
          for (int i = 0; i < kTileRows; ++i) _mm512_store_ps(turned + (r + i) * kDepth + at, square[i]);
        }
      }
      Product part = g;
      part.c += row * g.ldc;
      part.rows = rows;
      part.row_scale = g.row_scale != nullptr && k == 0 ? g.row_scale + row : nullptr;
      part.add = g.add || k > 0;
      part.depth = depth;
      part.a = turned;
      part.row_step = kDepth;
      part.k_step = 1;
      part.b += k * g.ldb;
      ProductOfRows(part);
    }
  }
}

// Computes 2^x with a relative error of 1.5e-7, using the polynomial with the smallest maximum relative error (8e-8) on
// [0, 1] and value 1 at 0. Exactly 1 at 0 and exactly 0 at -infinity. NaN stays NaN. It has one term fewer than Exp2,
// because the result is used as bf16 and in sums of many terms, where the difference is not visible.
inline __m512 TileExp2(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, 9);  // relative to the floor, as scalef expects
  __m512 p = _mm512_set1_ps(0x1.e974fap-10f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.277856p-7f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.c91ce6p-5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ebdb56p-3f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62e4bap-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, x);
}

// Exponents are relative to a row's largest score at the time when it last rose by more than kHeadroom. So
// probabilities are at most 2^8, which is harmless. The sums so far are rescaled in a row's first tile and rarely
// afterwards.
constexpr float kHeadroom = 8;

// Implements inner::AttentionKernels::softmax, with kHeadroom.
void SoftmaxRows(float* s, int64_t rows, float scale2, float* max, float* lanes, float* rescale) {
  constexpr int kVecs = kKeys / kTileWords;
  constexpr float kNone = -__builtin_inff();
  const __m512 scale = _mm512_set1_ps(scale2);
  for (int64_t r = 0; r < rows; ++r, s += kKeys, lanes += kLanes) {
    __m512 x[kVecs];
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) x[n] = _mm512_loadu_ps(s + n * kTileWords);
    const float top =
        scale2 * (scale2 > 0
                      ? _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(x[0], x[1]), _mm512_max_ps(x[2], x[3])))
                      : _mm512_reduce_min_ps(_mm512_min_ps(_mm512_min_ps(x[0], x[1]), _mm512_min_ps(x[2], x[3]))));
    __m512 total = _mm512_loadu_ps(lanes);
    rescale[r] = 1;
    if (top > max[r] + kHeadroom) {
      const __m512 factor = TileExp2(_mm512_set1_ps(max[r] - top));
      rescale[r] = _mm512_cvtss_f32(factor);
      max[r] = top;
      total = total * factor;
    }
    // For a row that has not seen a key yet, 2^(-infinity - 0) is 0, and NaN is kept.
    const __m512 shift = _mm512_set1_ps(max[r] == kNone ? 0 : max[r]);
#pragma GCC unroll 4
    for (int n = 0; n < kVecs; ++n) {
      x[n] = TileExp2(_mm512_fmsub_ps(x[n], scale, shift));
      total = total + x[n];
    }
    _mm512_storeu_ps(lanes, total);
    _mm512_storeu_ps(s, Tiled::NarrowRow(x[0], x[1]));
    _mm512_storeu_ps(s + kTileWords, Tiled::NarrowRow(x[2], x[3]));
  }
}
static_assert(kKeys == 4 * kTileWords && kLanes == kTileWords);

}  // namespace ingot::kernels::amx

#include "kernels/attention/attention_amx_few.inc"
#include "kernels/attention/attention_amx_forward.inc"
// After attention_amx_forward.inc, because it uses its functions.
#include "kernels/attention/attention_amx_backward.inc"

namespace ingot::kernels::amx {

constexpr inner::AttentionKernels<BFloat16> kTable = {.name = INGOT_ISA_NAME,
                                                      .pack = Tiled::kPack,
                                                      .step = Tiled::kStep,
                                                      .enter = Enter,
                                                      .leave = Leave,
                                                      .pack_rows = PackRows<Tiled>,
                                                      .pack_columns = PackColumns<Tiled>,
                                                      .pack_pairs = PackPairs<Tiled>,
                                                      .gemm = GemmOfTiles,
                                                      .few_scores = FewScoresOfTiles,
                                                      .few_output = FewOutputOfTiles,
                                                      .mask = MaskTile<float>,
                                                      .softmax = SoftmaxRows,
                                                      .softmax_backward = SoftmaxBackwardTile<Tiled>,
                                                      .store = StoreRow<Tiled>,
                                                      .row_dot = RowProduct<Tiled>,
                                                      .blocks = &kBlocks,
                                                      .backward_blocks = &kBackwardBlocks};

}  // namespace ingot::kernels::amx
#define INGOT_TABLE &amx::kTable
#else  // another architecture, or a compiler without the instructions
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
template <>
const AttentionKernels<BFloat16>* AttentionAmx<BFloat16>() {
  return INGOT_TABLE;
}
}  // namespace ingot::kernels::inner
