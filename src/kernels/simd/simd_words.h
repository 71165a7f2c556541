// Converts between numbers in memory, words, and vectors, based on simd.h. The rules of simd.h also apply here:
// this header is included once per instruction set and has no inline functions that the linker could merge across
// sets.
//
// A policy has:
//   T, Acc          the type in memory and the type of the sums
//   kPack, kStep    numbers per word, and words along a sum processed at once
//   Words(p)        loads a vector of words
//   WordsN(p, n)    loads the first n numbers, followed by zeros
//   Madd(a, b, c)   c + the products of the words in a and b
//   Narrow*         converts sums to words
#pragma once

#include "kernels/bfloat16.h"
#include "kernels/simd/simd.h"

namespace ingot::kernels::INGOT_ISA {

// fp32 and fp64. A word is one number.
template <typename Number>
struct Plain {
  using T = Number;
  using Acc = Number;
  static constexpr int kPack = 1, kStep = 1;
  static V<Acc> Words(const T* p) { return Vec<T>::Load(p); }
  static V<Acc> WordsN(const T* p, int64_t n) { return Vec<T>::LoadN(p, n); }
  static V<Acc> Madd(V<Acc> a, V<Acc> b, V<Acc> c) { return Vec<Acc>::Fma(a, b, c); }
  static void Put(T* p, V<Acc> x) { Vec<T>::Store(p, x); }
  static void PutN(T* p, V<Acc> x, int64_t n) { Vec<T>::StoreN(p, x, n); }
};

// bf16 on a machine without bf16 arithmetic. It is converted to fp32 when packed.
struct Widened {
  using T = BFloat16;
  using Acc = float;
  static constexpr int kPack = 1, kStep = 1;
  using X = Vec<float>;
  static V<Acc> Madd(V<Acc> a, V<Acc> b, V<Acc> c) { return X::Fma(a, b, c); }
#if defined(__AVX512F__)
  static V<Acc> Wide(__m256i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16)); }
  static V<Acc> Words(const T* p) { return Wide(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static V<Acc> WordsN(const T* p, int64_t n) {
    return Wide(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1u), p));
  }
#elif defined(__AVX2__)
  static V<Acc> Words(const T* p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  static V<Acc> WordsN(const T* p, int64_t n) {
    T padded[X::kWidth] = {};
    __builtin_memcpy(padded, p, n * sizeof(T));
    return Words(padded);
  }
#else
  static V<Acc> WordsN(const T* p, int64_t n) {
    float wide[X::kWidth] = {};
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t bits = static_cast<uint32_t>(p[i].bits) << 16;
      __builtin_memcpy(wide + i, &bits, sizeof(bits));
    }
    return X::Load(wide);
  }
  static V<Acc> Words(const T* p) { return WordsN(p, X::kWidth); }
#endif
  // Rounds to nearest, ties to even. NaN remains NaN.
  static T Narrow(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    if (x != x) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
    return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
  }
  static void PutN(T* p, V<Acc> x, int64_t n) {
    float wide[X::kWidth];
    X::Store(wide, x);
    for (int64_t i = 0; i < n; ++i) p[i] = Narrow(wide[i]);
  }
  static void Put(T* p, V<Acc> x) { PutN(p, x, X::kWidth); }
};

#if defined(__AVX512BF16__)
// bf16 in pairs: vdpbf16ps adds two products per lane to an fp32 sum. Denormals are treated as zero.
struct Paired {
  using T = BFloat16;
  using Acc = float;
  static constexpr int kPack = 2, kStep = 1;
  static V<Acc> Words(const T* p) { return _mm512_castsi512_ps(_mm512_loadu_si512(p)); }
  static V<Acc> WordsN(const T* p, int64_t n) {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint64_t{1} << n) - 1), p));
  }
  static V<Acc> Madd(V<Acc> a, V<Acc> b, V<Acc> c) {
    return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  // The words (x[0] x[1]) (x[2] x[3]) ... (y[0] y[1]) ...
  static V<Acc> NarrowRow(V<Acc> x, V<Acc> y) { return reinterpret_cast<V<Acc>>(_mm512_cvtne2ps_pbh(y, x)); }
  // The words (x[0] y[0]) (x[1] y[1]) ...
  static V<Acc> NarrowRows(V<Acc> x, V<Acc> y) {
    return Interleave(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(y, x)));
  }
  // Pairs two rows of sixteen numbers column by column. `halves` holds the upper row, followed by the lower row.
  static V<Acc> Interleave(__m512i halves) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, halves));
  }
  static void PutN(T* p, V<Acc> x, int64_t n) {
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1u),
                             reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
  static void Put(T* p, V<Acc> x) { PutN(p, x, 16); }
};
#endif

// Transposes a square of words in place.
template <typename Acc>
struct Square {
  static constexpr int kSize = Vec<Acc>::kWidth;
  static void Transpose(V<Acc>* rows) {
    Acc at[kSize][kSize];
    for (int i = 0; i < kSize; ++i) Vec<Acc>::Store(at[i], rows[i]);
    for (int i = 0; i < kSize; ++i) {
      for (int j = 0; j < kSize; ++j) rows[i][j] = at[j][i];
    }
  }
};

#if defined(__AVX512F__)
template <>
struct Square<float> {
  static constexpr int kSize = 16;
  static void Transpose(__m512* x) {
    __m512d t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1])),
                    b = _mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1])),
                    c = _mm512_castps_pd(_mm512_unpacklo_ps(x[i + 2], x[i + 3])),
                    d = _mm512_castps_pd(_mm512_unpackhi_ps(x[i + 2], x[i + 3]));
      t[i] = _mm512_unpacklo_pd(a, c);  // column 0 (and 4, 8, 12) of rows i..i+3
      t[i + 1] = _mm512_unpackhi_pd(a, c);
      t[i + 2] = _mm512_unpacklo_pd(b, d);
      t[i + 3] = _mm512_unpackhi_pd(b, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512d a = _mm512_shuffle_f64x2(t[i], t[4 + i], 0x88), b = _mm512_shuffle_f64x2(t[8 + i], t[12 + i], 0x88),
                    c = _mm512_shuffle_f64x2(t[i], t[4 + i], 0xdd), d = _mm512_shuffle_f64x2(t[8 + i], t[12 + i], 0xdd);
      x[i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(a, b, 0x88));
      x[8 + i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(a, b, 0xdd));
      x[4 + i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(c, d, 0x88));
      x[12 + i] = _mm512_castpd_ps(_mm512_shuffle_f64x2(c, d, 0xdd));
    }
  }
};
#elif defined(__AVX2__)
template <>
struct Square<float> {
  static constexpr int kSize = 8;
  static void Transpose(__m256* x) {
    __m256 t[8];
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      const __m256 a = _mm256_unpacklo_ps(x[i], x[i + 1]), b = _mm256_unpackhi_ps(x[i], x[i + 1]),
                   c = _mm256_unpacklo_ps(x[i + 2], x[i + 3]), d = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
      t[i] = _mm256_shuffle_ps(a, c, 0x44);
      t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
      t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
      t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm256_permute2f128_ps(t[i], t[4 + i], 0x20);
      x[4 + i] = _mm256_permute2f128_ps(t[i], t[4 + i], 0x31);
    }
  }
};
#endif

// 2^x with an error of about one unit in the last place. Exactly 1 at 0, and exactly 0 if x is below kLowest, including
// -infinity. NaN remains NaN, because Max returns its second argument if either is NaN.
template <typename T>
struct Exp2Constants;
template <>
struct Exp2Constants<float> {
  static constexpr float kLowest = -126, kHighest = 127;
  // The polynomial with value 1 at 0 and the smallest maximum relative error (2e-9) on [-1/2, 1/2].
  static constexpr float kTerms[] = {1.0f,           0x1.62e430p-1f,  0x1.ebfbdcp-3f, 0x1.c6aee8p-5f,
                                     0x1.3b2d4cp-7f, 0x1.5f3e52p-10f, 0x1.41fbbcp-13f};
  static constexpr int kDegree = 6;
};
struct Exp2Taylor {  // ln(2)^k / k!
  double at[14] = {1};
  constexpr Exp2Taylor() {
    for (int k = 1; k < 14; ++k) at[k] = at[k - 1] * 0.69314718055994530942 / k;
  }
  constexpr double operator[](int k) const { return at[k]; }
};
template <>
struct Exp2Constants<double> {
  static constexpr double kLowest = -1022, kHighest = 1023;
  static constexpr Exp2Taylor kTerms{};
  static constexpr int kDegree = 13;
};

template <typename T>
V<T> Exp2(V<T> x) {
  using C = Exp2Constants<T>;
  using X = Vec<T>;
  const V<T> bounded = T(0) - X::Max(X::Set(-C::kHighest), T(0) - X::Max(X::Set(C::kLowest), x));
  const V<T> n = X::Round(bounded), f = bounded - n;
  V<T> p = X::Set(C::kTerms[C::kDegree]);
#pragma GCC unroll 16
  for (int k = C::kDegree - 1; k >= 0; --k) p = X::Fma(p, f, X::Set(C::kTerms[k]));
  return X::ZeroBelow(x, X::Set(C::kLowest), p * X::Pow2(n));
}

#if defined(__AVX512F__)
// Uses instructions that replace steps of the generic version: reduce returns 0 for -infinity, and scalef returns 0 for
// very small values.
template <>
inline V<float> Exp2<float>(V<float> x) {
  using C = Exp2Constants<float>;
  const __m512 f = _mm512_reduce_ps(x, 0);
  __m512 p = _mm512_set1_ps(C::kTerms[C::kDegree]);
#pragma GCC unroll 16
  for (int k = C::kDegree - 1; k >= 0; --k) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(C::kTerms[k]));
  return _mm512_scalef_ps(p, _mm512_roundscale_ps(x, 0));
}
#endif

}  // namespace ingot::kernels::INGOT_ISA
