// The inner loops of bf16 attention for AMX: compiled with its flags, so nothing here may be called before the check of
// instruction_set.cc. The products are those of tiles (amx.h); the rest is avx512bf16's.
#define INGOT_ISA amx
#define INGOT_ISA_NAME "amx"
#include "kernels/attention_inner.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512DQ__)
#include "kernels/amx.h"
#include "kernels/attention_inner_impl.inc"

namespace ingot::kernels::amx {

// Words of a sum's index per instruction: packed tiles are filled up with zeros to a multiple.
struct Tiled : Paired {
  static constexpr int kStep = kTileRows;
};

using Product = inner::Gemm<float>;

// M x N tiles of c, of 16 or (M = 1) the configured rows. b has whole steps.
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

// Rows whose factor is 1 stay as they are: most of them do, once the greatest score has been seen.
inline void ScaleRows(float* c, int64_t ldc, const float* factors, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, c += ldc) {
    if (factors[r] == 1.0f) continue;
    const __m512 factor = _mm512_set1_ps(factors[r]);
    for (int64_t n = 0; n < width; n += 16) _mm512_storeu_ps(c + n, _mm512_loadu_ps(c + n) * factor);
  }
}

// The rows of a lie in memory as the tiles need them: k_step 1.
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
  // a lies transposed (row_step 1): turned, and filled up with zeros, some of the sum's index at a time.
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

}  // namespace ingot::kernels::amx

#include "kernels/attention_amx_few.inc"

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
                                                      .softmax = SoftmaxTile<Tiled>,
                                                      .softmax_backward = SoftmaxBackwardTile<Tiled>,
                                                      .store = StoreRow<Tiled>,
                                                      .row_dot = RowProduct<Tiled>};

}  // namespace ingot::kernels::amx
#define INGOT_TABLE &amx::kTable
#else  // another architecture, or a compiler that does not know the instructions
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
template <>
const AttentionKernels<BFloat16>* AttentionAmx<BFloat16>() {
  return INGOT_TABLE;
}
}  // namespace ingot::kernels::inner
