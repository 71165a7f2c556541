// The exact arithmetic of a race (race.h): hashes and times. It has the same bits on the CPU and on a GPU, because every
// operation rounds once and none is fused.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/bfloat16.h"

namespace ingot::kernels::inner {

// Constants from DeriveSeed and Mix64 (base/rng.h).
inline constexpr uint64_t kStream = 0xD1342543DE82EF95ull, kGamma = 0x9E3779B97F4A7C15ull,
                          kMix1 = 0xBF58476D1CE4E5B9ull, kMix2 = 0x94D049BB133111EBull;

INGOT_HOST_DEVICE inline uint64_t Mix64(uint64_t x) {
  x += kGamma;
  x = (x ^ (x >> 30)) * kMix1;
  x = (x ^ (x >> 27)) * kMix2;
  return x ^ (x >> 31);
}

// Returns the hash of an id; `key` = Mix64(seed).
INGOT_HOST_DEVICE inline uint64_t HashOf(uint64_t key, int64_t id) {
  return Mix64(key ^ (static_cast<uint64_t>(id) * kStream));
}

// A CUDA compiler fuses a product and a sum unless both are intrinsics. The CPU's files are compiled without fusing.
#ifdef __CUDA_ARCH__
__device__ inline double Product(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double Sum(double a, double b) { return __dadd_rn(a, b); }
#else
inline double Product(double a, double b) { return a * b; }
inline double Sum(double a, double b) { return a + b; }
#endif

// Returns 2 atanh(s) for |s| <= 1/3: 2 (s + s^3/3 + s^5/5 + ...). The first omitted term is 2^-60 of the sum.
INGOT_HOST_DEVICE inline double TwiceAtanh(double s) {
  constexpr int kTerms = 18;
  const double square = Product(s, s);
  double sum = 1.0 / (2 * kTerms - 1);
  for (int k = kTerms - 2; k >= 0; --k) sum = Sum(Product(sum, square), 1.0 / (2 * k + 1));
  return Product(Product(2, s), sum);
}

// As Log in race.h.
INGOT_HOST_DEVICE inline double LogOf(double x) {
  constexpr double kLn2High = 0x1.62e42fefap-1, kLn2Low = 0x1.cf79abc9e3b39p-40, kRoot2 = 0x1.6a09e667f3bcdp0;
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1, kOne = uint64_t{1023} << 52;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  auto exponent = static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  bits = (bits & kMantissa) | kOne;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > kRoot2) {
    mantissa *= 0.5;
    exponent += 1;
  }
  const double fraction = TwiceAtanh(Sum(mantissa, -1) / Sum(mantissa, 1));
  return Sum(Product(exponent, kLn2High), Sum(Product(exponent, kLn2Low), fraction));
}

// Returns ln(-ln U). Each half of (0, 1) is measured in multiples of 2^-65 from its end, so -ln U is as exact near 0 as
// elsewhere.
INGOT_HOST_DEVICE inline double LogTime(uint64_t hash) {
  const bool low = hash >> 63 == 0;
  const double distance = Product(Sum(static_cast<double>(static_cast<int64_t>(low ? hash : ~hash)), 0.5), 0x1p-64);
  return LogOf(low ? -LogOf(distance) : TwiceAtanh(distance / Sum(2, -distance)));  // -ln(1 - d) = 2 atanh(d / (2 - d))
}

}  // namespace ingot::kernels::inner
