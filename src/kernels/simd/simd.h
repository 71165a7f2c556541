// Defines the vectors for the inner loops. The inner_*.cc files include this header once per instruction set, each with
// its own namespace INGOT_ISA, because the linker must never merge inline functions from two sets. For the same reason,
// this header uses only <cstdint> and macros from the standard library.
//
// Vec<T>::Type is a GCC vector with the usual operators. Vec adds further operations.
#pragma once

#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace ingot::kernels::INGOT_ISA {

template <typename T>
struct Vec;

template <typename T>
using V = typename Vec<T>::Type;

#if defined(__AVX512F__)

template <>
struct Vec<float> {
  using Type = __m512;
  static constexpr int kWidth = 16, kDotRows = 6, kAccRows = 6, kAccVecs = 4;
  static Type Load(const float* p) { return _mm512_loadu_ps(p); }
  static Type LoadN(const float* p, int64_t n) { return _mm512_maskz_loadu_ps((1u << n) - 1u, p); }
  static void Store(float* p, Type x) { _mm512_storeu_ps(p, x); }
  static void StoreN(float* p, Type x, int64_t n) { _mm512_mask_storeu_ps(p, (1u << n) - 1u, x); }
  static Type Set(float x) { return _mm512_set1_ps(x); }
  static Type Fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
  static Type Max(Type a, Type b) { return _mm512_max_ps(a, b); }
  static Type Round(Type x) { return _mm512_roundscale_ps(x, 8); }
  static Type Pow2(Type n) { return _mm512_scalef_ps(Set(1.0f), n); }
  static Type ZeroBelow(Type x, Type limit, Type value) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), value);
  }
  // Bit i = a[i] >= b[i]. Always 0 for NaN.
  static unsigned AtLeast(Type a, Type b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  // Return the lower and upper half of the lanes, converted to double.
  static __m512d Low(Type x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
  static __m512d High(Type x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
  static float Sum(Type x) { return _mm512_reduce_add_ps(x); }
  static float Top(Type x) { return _mm512_reduce_max_ps(x); }
  // Sums the lanes of each of the four vectors. The four sums are stored as one __m128.
  static void Sum4(Type a, Type b, Type c, Type d, float* out, bool add) {
    Type t = _mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b);
    Type u = _mm512_unpacklo_ps(c, d) + _mm512_unpackhi_ps(c, d);
    __m512d td = _mm512_castps_pd(t), ud = _mm512_castps_pd(u);
    Type w = _mm512_castpd_ps(_mm512_unpacklo_pd(td, ud)) + _mm512_castpd_ps(_mm512_unpackhi_pd(td, ud));
    __m256 h = _mm512_castps512_ps256(w) + _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(w), 1));
    __m128 q = _mm256_castps256_ps128(h) + _mm256_extractf128_ps(h, 1);
    if (add) q = _mm_loadu_ps(out) + q;
    _mm_storeu_ps(out, q);
  }
};

template <>
struct Vec<double> {
  using Type = __m512d;
  static constexpr int kWidth = 8, kDotRows = 6, kAccRows = 6, kAccVecs = 4;
  static Type Load(const double* p) { return _mm512_loadu_pd(p); }
  static Type LoadN(const double* p, int64_t n) { return _mm512_maskz_loadu_pd((1u << n) - 1u, p); }
  static void Store(double* p, Type x) { _mm512_storeu_pd(p, x); }
  static void StoreN(double* p, Type x, int64_t n) { _mm512_mask_storeu_pd(p, (1u << n) - 1u, x); }
  static Type Set(double x) { return _mm512_set1_pd(x); }
  static Type Fma(Type a, Type b, Type c) { return _mm512_fmadd_pd(a, b, c); }
  static Type Max(Type a, Type b) { return _mm512_max_pd(a, b); }
  static Type Round(Type x) { return _mm512_roundscale_pd(x, 8); }
  static Type Pow2(Type n) { return _mm512_scalef_pd(Set(1.0), n); }
  static Type ZeroBelow(Type x, Type limit, Type value) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, limit, _CMP_NLT_UQ), value);
  }
  static double Sum(Type x) { return _mm512_reduce_add_pd(x); }
  static double Top(Type x) { return _mm512_reduce_max_pd(x); }
  static void Sum4(Type a, Type b, Type c, Type d, double* out, bool add) {
    Type t = _mm512_unpacklo_pd(a, b) + _mm512_unpackhi_pd(a, b);
    Type u = _mm512_unpacklo_pd(c, d) + _mm512_unpackhi_pd(c, d);
    __m256d th = _mm512_castpd512_pd256(t) + _mm512_extractf64x4_pd(t, 1);
    __m256d uh = _mm512_castpd512_pd256(u) + _mm512_extractf64x4_pd(u, 1);
    __m256d q = _mm256_permute2f128_pd(th, uh, 0x20) + _mm256_permute2f128_pd(th, uh, 0x31);
    if (add) q = _mm256_loadu_pd(out) + q;
    _mm256_storeu_pd(out, q);
  }
};

#elif defined(__AVX2__) && defined(__FMA__)

template <>
struct Vec<float> {
  using Type = __m256;
  static constexpr int kWidth = 8, kDotRows = 2, kAccRows = 6, kAccVecs = 2;
  static __m256i Lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Type Load(const float* p) { return _mm256_loadu_ps(p); }
  static Type LoadN(const float* p, int64_t n) { return _mm256_maskload_ps(p, Lanes(n)); }
  static void Store(float* p, Type x) { _mm256_storeu_ps(p, x); }
  static void StoreN(float* p, Type x, int64_t n) { _mm256_maskstore_ps(p, Lanes(n), x); }
  static Type Set(float x) { return _mm256_set1_ps(x); }
  static Type Fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  static Type Max(Type a, Type b) { return _mm256_max_ps(a, b); }
  static Type Round(Type x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Type Pow2(Type n) {
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
  }
  static Type ZeroBelow(Type x, Type limit, Type value) {
    return _mm256_and_ps(_mm256_cmp_ps(x, limit, _CMP_NLT_UQ), value);
  }
  static unsigned AtLeast(Type a, Type b) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)));
  }
  static __m256d Low(Type x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
  static __m256d High(Type x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
  static float Sum(Type x) {
    __m128 q = _mm256_castps256_ps128(x) + _mm256_extractf128_ps(x, 1);
    q = q + _mm_movehl_ps(q, q);
    return q[0] + q[1];
  }
  static float Top(Type x) {
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return q[0] > q[1] ? q[0] : q[1];
  }
  static void Sum4(Type a, Type b, Type c, Type d, float* out, bool add) {
    Type h = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    __m128 q = _mm256_castps256_ps128(h) + _mm256_extractf128_ps(h, 1);
    if (add) q = _mm_loadu_ps(out) + q;
    _mm_storeu_ps(out, q);
  }
};

template <>
struct Vec<double> {
  using Type = __m256d;
  static constexpr int kWidth = 4, kDotRows = 2, kAccRows = 6, kAccVecs = 2;
  static __m256i Lanes(int64_t n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
  static Type Load(const double* p) { return _mm256_loadu_pd(p); }
  static Type LoadN(const double* p, int64_t n) { return _mm256_maskload_pd(p, Lanes(n)); }
  static void Store(double* p, Type x) { _mm256_storeu_pd(p, x); }
  static void StoreN(double* p, Type x, int64_t n) { _mm256_maskstore_pd(p, Lanes(n), x); }
  static Type Set(double x) { return _mm256_set1_pd(x); }
  static Type Fma(Type a, Type b, Type c) { return _mm256_fmadd_pd(a, b, c); }
  static Type Max(Type a, Type b) { return _mm256_max_pd(a, b); }
  static Type Round(Type x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Type Pow2(Type n) {
    __m256i e = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n));
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(e, _mm256_set1_epi64x(1023)), 52));
  }
  static Type ZeroBelow(Type x, Type limit, Type value) {
    return _mm256_and_pd(_mm256_cmp_pd(x, limit, _CMP_NLT_UQ), value);
  }
  static double Sum(Type x) {
    __m128d q = _mm256_castpd256_pd128(x) + _mm256_extractf128_pd(x, 1);
    return q[0] + q[1];
  }
  static double Top(Type x) {
    __m128d q = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return q[0] > q[1] ? q[0] : q[1];
  }
  static void Sum4(Type a, Type b, Type c, Type d, double* out, bool add) {
    Type t = _mm256_hadd_pd(a, b), u = _mm256_hadd_pd(c, d);
    Type q = _mm256_permute2f128_pd(t, u, 0x20) + _mm256_permute2f128_pd(t, u, 0x31);
    if (add) q = _mm256_loadu_pd(out) + q;
    _mm256_storeu_pd(out, q);
  }
};

#else

// Two or four lanes of the compiler's 16-byte vectors (SSE2, NEON, or emulated).
template <typename T, typename I, int kMantissaBits, I kBias>
struct Portable16 {
  typedef T Type __attribute__((vector_size(16)));
  typedef I Int __attribute__((vector_size(16)));
  static constexpr int kWidth = 16 / sizeof(T), kDotRows = 2, kAccRows = 6, kAccVecs = 2;
  static Type Load(const T* p) {
    Type x;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
  }
  static Type LoadN(const T* p, int64_t n) {
    Type x = {};
    for (int64_t i = 0; i < n; ++i) x[i] = p[i];
    return x;
  }
  static void Store(T* p, Type x) { __builtin_memcpy(p, &x, sizeof(x)); }
  static void StoreN(T* p, Type x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) p[i] = x[i];
  }
  static Type Set(T x) { return Type{} + x; }
  static Type Fma(Type a, Type b, Type c) { return a * b + c; }
  static Type Max(Type a, Type b) { return a > b ? a : b; }
  static Type Round(Type x) {  // |x| is small: adding 1.5 * 2^mantissa drops the fraction
    const Type magic = Set(T(1.5) * T(I(1) << kMantissaBits));
    return (x + magic) - magic;
  }
  static Type Pow2(Type n) {
    Int e = (__builtin_convertvector(n, Int) + kBias) << kMantissaBits;
    Type x;
    __builtin_memcpy(&x, &e, sizeof(x));
    return x;
  }
  static Type ZeroBelow(Type x, Type limit, Type value) { return x < limit ? Type{} : value; }
  static T Sum(Type x) {
    T s = x[0];
    for (int i = 1; i < kWidth; ++i) s += x[i];
    return s;
  }
  static T Top(Type x) {
    T top = x[0];
    for (int i = 1; i < kWidth; ++i) top = top > x[i] ? top : x[i];
    return top;
  }
  static void Sum4(Type a, Type b, Type c, Type d, T* out, bool add) {
    const T sums[4] = {Sum(a), Sum(b), Sum(c), Sum(d)};
    for (int i = 0; i < 4; ++i) out[i] = add ? out[i] + sums[i] : sums[i];
  }
};
template <>
struct Vec<double> : Portable16<double, int64_t, 52, 1023> {};
template <>
struct Vec<float> : Portable16<float, int32_t, 23, 127> {
  static unsigned AtLeast(Type a, Type b) {
    const Int at_least = a >= b;
#if defined(__SSE2__)
    return static_cast<unsigned>(__builtin_ia32_movmskps((Type)at_least));
#else
    unsigned bits = 0;
    for (int i = 0; i < kWidth; ++i) bits |= at_least[i] != 0 ? 1u << i : 0;
    return bits;
#endif
  }
  static Vec<double>::Type Low(Type x) { return Vec<double>::Type{x[0], x[1]}; }
  static Vec<double>::Type High(Type x) { return Vec<double>::Type{x[2], x[3]}; }
};

#endif

template <typename T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float kLowest = -87.3f, kHighest = 88.0f;
  static constexpr float kLn2High = 0x1.63p-1f, kLn2Low = -0x1.bd0106p-13f;
  static constexpr int kDegree = 7;
};
template <>
struct ExpConstants<double> {
  static constexpr double kLowest = -708.0, kHighest = 709.0;
  static constexpr double kLn2High = 0x1.62e42fefap-1, kLn2Low = 0x1.cf79abc9e3b39p-40;
  static constexpr int kDegree = 13;
};

// exp(x) = 2^n e^r with a small r.
template <typename T>
struct ReducedExp {
  V<T> n, r;
};
template <typename T, typename Ops = Vec<T>>
ReducedExp<T> ReduceExp(V<T> x) {
  using C = ExpConstants<T>;
  const V<T> n = Vec<T>::Round(x * T(1.44269504088896340736));
  const V<T> r = Ops::Fma(n, Vec<T>::Set(-C::kLn2High), x);
  return {n, Ops::Fma(n, Vec<T>::Set(-C::kLn2Low), r)};
}

// Returns the terms of e^r starting with r^kFirst / kFirst!, divided by r^kFirst.
template <typename T, int kFirst, typename Ops = Vec<T>>
V<T> ExpTerms(V<T> r) {
  using C = ExpConstants<T>;
  T coefficient = 1;  // 1/k!, computed by the compiler
  T inverse_factorial[C::kDegree + 1];
  inverse_factorial[0] = 1;
#pragma GCC unroll 16
  for (int k = 1; k <= C::kDegree; ++k) inverse_factorial[k] = coefficient = coefficient / T(k);
  V<T> p = Vec<T>::Set(inverse_factorial[C::kDegree]);
#pragma GCC unroll 16
  for (int k = C::kDegree - 1; k >= kFirst; --k) p = Ops::Fma(p, r, Vec<T>::Set(inverse_factorial[k]));
  return p;
}

// exp with an error of about one unit in the last place. Exactly 0 below kLowest, including -infinity, and exactly 1 at
// 0. NaN remains NaN, because Max returns its second argument if either is NaN. Ops replaces operations of Vec<T>.
template <typename T, typename Ops = Vec<T>>
V<T> Exp(V<T> x) {
  using C = ExpConstants<T>;
  const V<T> bounded = T(0) - Vec<T>::Max(Vec<T>::Set(-C::kHighest), T(0) - Vec<T>::Max(Vec<T>::Set(C::kLowest), x));
  const ReducedExp<T> reduced = ReduceExp<T, Ops>(bounded);
  const V<T> p = ExpTerms<T, 0, Ops>(reduced.r);
  return Vec<T>::ZeroBelow(x, Vec<T>::Set(C::kLowest), p * Vec<T>::Pow2(reduced.n));
}

// exp(x) - 1 for x <= 0, with an error of about two units in the last place, without cancellation near 0.
template <typename T>
V<T> ExpMinus1(V<T> x) {
  const ReducedExp<T> reduced = ReduceExp<T>(Vec<T>::Max(Vec<T>::Set(ExpConstants<T>::kLowest), x));
  const V<T> p = ExpTerms<T, 1>(reduced.r), power = Vec<T>::Pow2(reduced.n);
  return Vec<T>::Fma(power, p * reduced.r, power - T(1));  // 2^n (e^r - 1) + (2^n - 1)
}

// With m = exp(-2 |x|) - 1, tanh |x| = -m / (2 + m). NaN remains NaN.
template <typename T>
V<T> Tanh(V<T> x) {
  const V<T> m = ExpMinus1<T>(Vec<T>::Max(x, T(0) - x) * T(-2));
  const V<T> t = (T(0) - m) / (m + T(2));
  return x < V<T>{} ? T(0) - t : t;
}

}  // namespace ingot::kernels::INGOT_ISA
