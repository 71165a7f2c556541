// The inner loops of bf16 for AMX: compiled with its flags, so nothing here may be called before the check of
// instruction_set.cc. The dot products are those of tiles (amx.h); the rest is avx512bf16's.
#define INGOT_ISA amx
#define INGOT_ISA_NAME "amx"
#include "kernels/inner.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512DQ__)
#include "kernels/amx.h"
#define INGOT_HALF Paired
#include "kernels/inner_half_impl.inc"

namespace ingot::kernels::amx {

constexpr int64_t kNumbers = 2 * kTileWords;         // of a sum's index per instruction
constexpr int64_t kSquare = kTileRows * kTileWords;  // words of a tile
// Instructions of a sum for which one side is packed at once: two tiles' columns in the first-level cache, or few rows.
constexpr int64_t kSteps = 16, kFewSteps = 32;
constexpr int64_t kAhead = 4;  // instructions whose columns are put together at once
// A block of the result: its rows and columns meet at their share of the second-level cache.
constexpr int64_t kRows = 256, kCols = 256;

// Numbers [d, d + 32) of row r < count, of which n are there, into row r of a square; the rest is zero.
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

// B of up to 16 rows: tile s holds numbers [d + 32 s, d + 32 (s + 1)) of each, turned.
inline void PackTurned(const BFloat16* const* rows, int64_t count, int64_t d, int64_t depth, float* to) {
  for (; d < depth; d += kNumbers, to += kSquare) {
    __m512 square[kTileRows];
    LoadSquare(rows, count, d, depth - d, square);
    Square<float>::Transpose(square);
    StoreSquare(to, square);
  }
}

// A of rows `stride` numbers apart, as they lie in memory if the step is whole, else put together in `staged`.
template <int kTile>
inline void LoadRows(const BFloat16* rows, int64_t stride, int64_t count, int64_t n, float* staged) {
  if (n >= kNumbers) return LoadTile<kTile>(rows, stride);
  for (int64_t i = 0; i < count; ++i) _mm512_store_ps(staged + i * kTileWords, Paired::WordsN(rows + i * stride, n));
  LoadTile<kTile>(staged, kTileWords);
}

// Up to 16 M rows of a, as many as configured to each tile, against 32 columns over `depth` of at most a pack.
template <int M>
void DotTiles(const BFloat16* a, int64_t lda, int64_t rows, const float* packed, int64_t depth, float* s, int64_t lds,
              bool add) {
  alignas(64) float staged[kSquare];
  float* below = s + kTileRows * lds;
  if (add) {
    LoadTile<0>(s, lds);
    LoadTile<1>(s + kTileWords, lds);
    if constexpr (M > 1) LoadTile<2>(below, lds);
    if constexpr (M > 1) LoadTile<3>(below + kTileWords, lds);
  } else {
    ZeroTile<0>();
    ZeroTile<1>();
    if constexpr (M > 1) ZeroTile<2>();
    if constexpr (M > 1) ZeroTile<3>();
  }
  for (int64_t d = 0; d < depth; d += kNumbers, packed += kSquare) {
    LoadRows<4>(a + d, lda, rows, depth - d, staged);
    LoadTile<6>(packed, kTileWords);
    LoadTile<7>(packed + kSteps * kSquare, kTileWords);
    Multiply<0, 4, 6>();
    Multiply<1, 4, 7>();
    if constexpr (M > 1) {
      LoadRows<5>(a + kTileRows * lda + d, lda, kTileRows, depth - d, staged);
      Multiply<2, 5, 6>();
      Multiply<3, 5, 7>();
    }
  }
  StoreTile<0>(s, lds);
  StoreTile<1>(s + kTileWords, lds);
  if constexpr (M > 1) StoreTile<2>(below, lds);
  if constexpr (M > 1) StoreTile<3>(below + kTileWords, lds);
}

// A is the rows as they lie, B 32 columns at a time, packed once for all rows.
void DotManyRows(const BFloat16* a, int64_t lda, int64_t rows, const BFloat16* const* b, int64_t cols, int64_t depth,
                 float* s, int64_t lds, bool add) {
  alignas(64) float packed[2 * kSteps * kSquare];
  for (int64_t d = 0; d < depth; d += kSteps * kNumbers) {
    const int64_t end = d + kSteps * kNumbers < depth ? d + kSteps * kNumbers : depth;
    for (int64_t j = 0; j < cols; j += 2 * kTileRows) {
      for (int64_t half = 0; half < 2; ++half) {
        const int64_t first = j + half * kTileRows, left = cols - first;
        PackTurned(b + first,
                   left < 0           ? 0
                   : left < kTileRows ? left
                                      : kTileRows,
                   d, end, packed + half * kSteps * kSquare);
      }
      const auto tiles = [&]<int M>(int64_t r, int64_t count) {
        DotTiles<M>(a + r * lda + d, lda, count, packed, end - d, s + r * lds + j, lds, add || d > 0);
      };
      int64_t r = 0;
      for (; r + 2 * kTileRows <= rows; r += 2 * kTileRows) tiles.template operator()<2>(r, kTileRows);
      if (r + kTileRows <= rows) {
        tiles.template operator()<1>(r, kTileRows);
        r += kTileRows;
      }
      if (r < rows) {
        Configure(rows - r);
        tiles.template operator()<1>(r, rows - r);
        Configure(kTileRows);
      }
    }
  }
}

// Up to 16 rows: A is 16 columns as they lie, B the rows, packed; the result is turned back. So weights that come from
// memory are not packed. The columns that come next are asked for meanwhile.
void DotFewRows(const BFloat16* a, int64_t lda, int64_t rows, const BFloat16* const* b, int64_t cols, int64_t depth,
                float* s, int64_t lds, bool add) {
  alignas(64) float packed[kFewSteps * kSquare], staged[kAhead * kSquare];
  const BFloat16* a_rows[kTileRows];
  for (int64_t r = 0; r < rows; ++r) a_rows[r] = a + r * lda;
  for (int64_t d = 0; d < depth; d += kFewSteps * kNumbers) {
    const int64_t end = d + kFewSteps * kNumbers < depth ? d + kFewSteps * kNumbers : depth;
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
  (rows <= kTileRows ? DotFewRows : DotManyRows)(a, lda, rows, b, cols, depth, s, lds, add);
  Leave();
}

constexpr inner::Kernels<BFloat16> kTable = {INGOT_ISA_NAME, kRows,      kCols,      DotOfTiles, HalfRmsNorm,
                                             HalfRotate,     HalfSwiGlu, HalfNarrow, HalfWiden};

}  // namespace ingot::kernels::amx
#define INGOT_TABLE &amx::kTable
#else  // another architecture, or a compiler that does not know the instructions
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
template <>
const Kernels<BFloat16>* Amx<BFloat16>() {
  return INGOT_TABLE;
}
}  // namespace ingot::kernels::inner
