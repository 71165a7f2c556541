// The formats fp16, bf16 and tf32 in software.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace ingot::standin::ptx {

enum class Rounding : uint8_t { kNearestEven, kZero, kDown, kUp, kNearestAway };

// `x` as a number with kFraction bits of fraction and exponents from kLeast on, in the bits of sign, exponent and fraction.
template <int kExponent, int kFraction>
uint32_t Encode(double x, Rounding rounding) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kFraction;
  const uint32_t sign = std::signbit(x) ? 1u << (kExponent + kFraction) : 0;
  const double magnitude = std::fabs(x);
  if (std::isinf(x)) return sign | kInfinity;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
  const double scaled = std::ldexp(magnitude, kFraction - exponent);  // exact
  const double down = std::floor(scaled), rest = scaled - down;
  const bool odd = std::fmod(down, 2) != 0;
  bool up = false;
  switch (rounding) {
    case Rounding::kNearestEven:
      up = rest > 0.5 || (rest == 0.5 && odd);
      break;
    case Rounding::kNearestAway:
      up = rest >= 0.5;
      break;
    case Rounding::kZero:
      break;
    case Rounding::kDown:
      up = sign != 0 && rest > 0;
      break;
    case Rounding::kUp:
      up = sign == 0 && rest > 0;
      break;
  }
  // A carry out of the fraction is the next exponent; a subnormal number has the exponent 0.
  const auto fraction = static_cast<uint32_t>(down) + (up ? 1 : 0);
  const uint32_t bits = (static_cast<uint32_t>(exponent + kBias - 1) << kFraction) + fraction;
  if (bits < kInfinity) return sign | bits;
  const bool away = rounding == Rounding::kNearestEven || rounding == Rounding::kNearestAway ||
                    (rounding == Rounding::kUp && sign == 0) || (rounding == Rounding::kDown && sign != 0);
  return sign | (away ? kInfinity : kInfinity - 1);
}

struct Half {
  static constexpr float kLeastNormal = 0x1p-14f;
  static float ToFloat(uint16_t bits) {
    const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  static uint16_t From(double x, Rounding rounding = Rounding::kNearestEven) {
    return x != x ? 0x7fff : static_cast<uint16_t>(Encode<5, 10>(x, rounding));
  }
};

struct Bfloat {
  static constexpr float kLeastNormal = 0x1p-126f;
  static float ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static uint16_t From(double x, Rounding rounding = Rounding::kNearestEven) {
    return x != x ? 0x7fff : static_cast<uint16_t>(Encode<8, 7>(x, rounding));
  }
};

// tf32 in the bits of fp32: 10 bits of fraction, the others are zero.
inline uint32_t ToTf32(double x, Rounding rounding) { return x != x ? 0x7fffffff : Encode<8, 10>(x, rounding) << 13; }

}  // namespace ingot::standin::ptx
