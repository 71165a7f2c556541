// Products using tile registers. Compiled with AMX flags, so nothing here may be called before the check in
// instruction_set.cc.
#define INGOT_ISA amx_product
#include "kernels/products/inner_product.h"

#include "kernels/simd/inner.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512DQ__)
#include "kernels/simd/amx.h"
#include "kernels/simd/simd_words.h"

namespace ingot::kernels::amx_product {

constexpr int64_t kTile = kTileRows * 2 * kTileWords;  // numbers
using inner::kPanel;
using inner::kStepNumbers;

// Loads rows of up to 32 numbers.
inline void LoadRows(const BFloat16* from, int64_t stride, int64_t rows, int64_t n, __m512* words) {
  if (rows == kTileRows && n == kStepNumbers) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileRows; ++i) words[i] = Paired::Words(from + i * stride);
    return;
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    words[i] = i < rows ? Paired::WordsN(from + i * stride, n) : _mm512_setzero_ps();
  }
}
// Loads pairs of the adjacent numbers k and k + 1 from up to 32 rows: `first` from the first 16 rows, and `second` from
// the others. Number k of all rows is at from + k * stride.
inline void LoadPairs(const BFloat16* from, int64_t stride, int64_t rows, int64_t n, __m512* first, __m512* second) {
  const auto mask = static_cast<__mmask32>((uint64_t{1} << rows) - 1u);
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const auto pair = [&](int64_t i, __m512i even, __m512i odd) {
    first[i] = _mm512_castsi512_ps(_mm512_permutex2var_epi16(even, low, odd));
    second[i] = _mm512_castsi512_ps(_mm512_permutex2var_epi16(even, high, odd));
  };
  if (rows == 2 * kTileRows && n == kStepNumbers) {
#pragma GCC unroll 16
    for (int i = 0; i < kTileWords; ++i, from += 2 * stride) {
      pair(i, _mm512_loadu_si512(from), _mm512_loadu_si512(from + stride));
    }
    return;
  }
  const auto load = [&](int64_t k) {
    return k < n ? _mm512_maskz_loadu_epi16(mask, from + k * stride) : _mm512_setzero_si512();
  };
  for (int64_t i = 0; i < kTileWords; ++i) pair(i, load(2 * i), load(2 * i + 1));
}
inline void StoreWords(BFloat16* to, const __m512* words) {
#pragma GCC unroll 16
  for (int i = 0; i < kTileRows; ++i) _mm512_store_si512(to + i * 2 * kTileWords, _mm512_castps_si512(words[i]));
}

// Packs one step of a panel. kTurned = the loaded rows become the tile's columns.
template <bool kAcross, bool kTurned>
void PackStep(const BFloat16* from, int64_t stride, int64_t rows, int64_t n, BFloat16* to) {
  __m512 words[2][kTileRows];
  if constexpr (kAcross) {
    LoadPairs(from, stride, rows, n, words[0], words[1]);
  } else {
    const int64_t upper = rows < kTileRows ? rows : kTileRows;
    LoadRows(from, stride, upper, n, words[0]);
    LoadRows(from + kTileRows * stride, stride, rows - upper, n, words[1]);
  }
  for (int half = 0; half < 2; ++half) {
    if constexpr (kTurned) Square<float>::Transpose(words[half]);
    StoreWords(to + half * kTile, words[half]);
  }
}

// Reads memory in order: with `across`, one step of all panels at a time, otherwise all of one panel.
template <bool kAcross, bool kTurned>
void Pack(const BFloat16* from, int64_t stride, int64_t rows, int64_t depth, BFloat16* to) {
  const int64_t steps = (depth + kStepNumbers - 1) / kStepNumbers;
  const auto step = [&](int64_t row, int64_t s) {
    const int64_t k = s * kStepNumbers, count = rows - row < kPanel ? rows - row : kPanel;
    PackStep<kAcross, kTurned>(kAcross ? from + k * stride + row : from + row * stride + k, stride, count,
                               depth - k < kStepNumbers ? depth - k : kStepNumbers,
                               to + row * steps * kStepNumbers + 2 * s * kTile);
  };
  if constexpr (kAcross) {
    for (int64_t s = 0; s < steps; ++s) {
      for (int64_t row = 0; row < rows; row += kPanel) step(row, s);
    }
  } else {
    for (int64_t row = 0; row < rows; row += kPanel) {
      for (int64_t s = 0; s < steps; ++s) step(row, s);
    }
  }
}

void PackA(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to) {
  (across ? Pack<true, true> : Pack<false, false>)(from, stride, rows, depth, to);
}
void PackB(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to) {
  (across ? Pack<true, false> : Pack<false, true>)(from, stride, rows, depth, to);
}

inline void Ask(inner::Ahead& ahead) {
  constexpr int64_t kLineBytes = 64;
  if (ahead.rows == 0) return;
  __builtin_prefetch(ahead.row + ahead.line * kLineBytes, 0, 2);
  if (++ahead.line == ahead.lines) {
    ahead.line = 0;
    ahead.row += ahead.stride;
    --ahead.rows;
  }
}

void Multiply32(const BFloat16* a, const BFloat16* b, int64_t panels, int64_t steps, float* c, int64_t ldc, bool add,
                inner::Ahead& lines) {
  inner::Ahead ahead = lines;
  Enter();
  for (int64_t panel = 0; panel < panels; ++panel, b += 2 * steps * kTile, c += 2 * kTileWords) {
    float* const below = c + kTileRows * ldc;
    if (add) {
      LoadTile<0>(c, ldc);
      LoadTile<1>(c + kTileWords, ldc);
      LoadTile<2>(below, ldc);
      LoadTile<3>(below + kTileWords, ldc);
    } else {
      ZeroTile<0>();
      ZeroTile<1>();
      ZeroTile<2>();
      ZeroTile<3>();
    }
    for (int64_t s = 0; s < steps; ++s) {
      const BFloat16 *from_a = a + 2 * s * kTile, *from_b = b + 2 * s * kTile;
      LoadTile<4>(from_a, 2 * kTileWords);
      StreamTile<6>(from_b, 2 * kTileWords);
      StreamTile<7>(from_b + kTile, 2 * kTileWords);
      Multiply<0, 4, 6>();
      Multiply<1, 4, 7>();
      Ask(ahead);
      Ask(ahead);
      LoadTile<5>(from_a + kTile, 2 * kTileWords);
      Multiply<2, 5, 6>();
      Multiply<3, 5, 7>();
    }
    StoreTile<0>(c, ldc);
    StoreTile<1>(c + kTileWords, ldc);
    StoreTile<2>(below, ldc);
    StoreTile<3>(below + kTileWords, ldc);
  }
  Leave();
  lines = ahead;
}

void Add(float* to, const float* x, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(to + i, _mm512_loadu_ps(to + i) + _mm512_loadu_ps(x + i));
  for (; i < n; ++i) to[i] += x[i];
}

constexpr inner::TileKernels kTable = {PackA, PackB, Multiply32, Add};

}  // namespace ingot::kernels::amx_product
#define INGOT_TABLE &amx_product::kTable
#else  // another architecture, or a compiler without the instructions
#define INGOT_TABLE nullptr
#endif

namespace ingot::kernels::inner {
const TileKernels* Tiles() { return INGOT_TABLE; }
}  // namespace ingot::kernels::inner
