// Inner loops for bf16 on AMX. Compiled with AMX flags, so nothing here may be called before the check in
// instruction_set.cc. Tiles (amx.h) compute dot products for few rows, as in decoding. product.cc multiplies many rows.
// Everything else is from avx512bf16.
#define INGOT_ISA amx
#define INGOT_ISA_NAME "amx"
#include "kernels/simd/inner.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512DQ__)
#include "kernels/simd/amx.h"
#define INGOT_HALF Paired
#include "kernels/simd/inner_half_impl.inc"

namespace ingot::kernels::amx {

constexpr int64_t kNumbers = 2 * kTileWords;         // along a sum's index per instruction
constexpr int64_t kSquare = kTileRows * kTileWords;  // words of a tile
constexpr int64_t kSteps = 32;                       // rows are packed for this many instructions at once
constexpr int64_t kAhead = 4;                        // instructions whose columns are prepared together
// Size of a result block.
constexpr int64_t kRows = 32, kCols = 256;

// Loads numbers [d, d + 32) of rows r < count into the rows of a square. Only n numbers exist; the others are zero.
inline void LoadSquare(const BFloat16* const* rows, int64_t count, int64_t d, int64_t n, __m512* square) {
  if (count == kTileRows && n >= kNumbers) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) square[i] = Paired::Words(rows[i] + d);
    return;
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    square[i] = i < count ? Paired::WordsN(rows[i] + d, n < kNumbers ? n : kNumbers) : _mm512_setzero_ps();
  }
}
inline void StoreSquare(float* to, const __m512* square) {
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) _mm512_store_ps(to + i * kTileWords, square[i]);
}

// Packs B of up to 16 rows. Tile s holds the numbers [d + 32 s, d + 32 (s + 1)) of each, transposed.
inline void PackTurned(const BFloat16* const* rows, int64_t count, int64_t d, int64_t depth, float* to) {
  for (; d < depth; d += kNumbers, to += kSquare) {
    __m512 square[kTileRows];
    LoadSquare(rows, count, d, depth - d, square);
    Square<float>::Transpose(square);
    StoreSquare(to, square);
  }
}

// For up to 16 rows: A is 16 columns in their memory layout, B the packed rows, and the result is transposed back. So
// weights that are read from memory are not packed. Prefetches the following columns at the same time.
void DotFewRows(const BFloat16* a, int64_t lda, int64_t rows, const BFloat16* const* b, int64_t cols, int64_t depth,
                float* s, int64_t lds, bool add) {
  alignas(64) float packed[kSteps * kSquare], staged[kAhead * kSquare];
  const BFloat16* a_rows[kTileRows];
  for (int64_t r = 0; r < rows; ++r) a_rows[r] = a + r * lda;
  for (int64_t d = 0; d < depth; d += kSteps * kNumbers) {
    const int64_t end = d + kSteps * kNumbers < depth ? d + kSteps * kNumbers : depth;
    PackTurned(a_rows, rows, d, end, packed);
    for (int64_t j = 0; j < cols; j += kTileRows) {
      const int64_t count = cols - j < kTileRows ? cols - j : kTileRows;
      const bool next = j + 2 * kTileRows <= cols;
      __m512 square[kTileRows] = {};
      ZeroTile<0>();
      if (add || d > 0) {
        for (int64_t r = 0; r < rows; ++r) {
          square[r] = _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), s + r * lds + j);
        }
        Square<float>::Transpose(square);
        StoreSquare(staged, square);
        LoadTile<0>(staged, kTileWords);
      }
      for (int64_t at = d; at < end; at += kAhead * kNumbers) {
        const int64_t last = at + kAhead * kNumbers < end ? at + kAhead * kNumbers : end;
        for (int64_t k = at; k < last; k += kNumbers) {
          LoadSquare(b + j, count, k, end - k, square);
          for (int64_t i = 0; next && i < kTileRows; ++i) __builtin_prefetch(b[j + kTileRows + i] + k, 0, 2);
          StoreSquare(staged + (k - at) / kNumbers * kSquare, square);
        }
        for (int64_t k = at; k < last; k += kNumbers) {
          LoadTile<4>(staged + (k - at) / kNumbers * kSquare, kTileWords);
          LoadTile<6>(packed + (k - d) / kNumbers * kSquare, kTileWords);
          Multiply<0, 4, 6>();
        }
      }
      StoreTile<0>(staged, kTileWords);
      for (int64_t i = 0; i < kTileRows; ++i) square[i] = _mm512_load_ps(staged + i * kTileWords);
      Square<float>::Transpose(square);
      for (int64_t r = 0; r < rows; ++r) {
        _mm512_mask_storeu_ps(s + r * lds + j, static_cast<__mmask16>((1u << count) - 1u), square[r]);
      }
    }
  }
}

void DotOfTiles(const BFloat16* a, int64_t lda, int64_t rows, const BFloat16* const* b, int64_t cols, int64_t depth,
                float* s, int64_t lds, bool add) {
  Enter();
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const int64_t count = rows - r < kTileRows ? rows - r : kTileRows;
    DotFewRows(a + r * lda, lda, count, b, cols, depth, s + r * lds, lds, add);
  }
  Leave();
}

constexpr inner::Kernels<BFloat16> kTable = {INGOT_ISA_NAME, kRows,      kCols,      DotOfTiles, HalfRmsNorm,
                                             HalfRotate,     HalfSwiGlu, HalfNarrow, HalfWiden};

}  // namespace ingot::kernels::amx
#define INGOT_TABLE &amx::kTable
#else  // another architecture, or a compiler without the instructions
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
template <>
const Kernels<BFloat16>* Amx<BFloat16>() {
  return INGOT_TABLE;
}
}  // namespace ingot::kernels::inner
