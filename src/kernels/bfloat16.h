// Defines bfloat16 as raw bits with the layout of c10::BFloat16, and the type that kernels use for sums.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

// Marks code that a CUDA compiler also compiles for the device.
#ifdef __CUDACC__
#define INGOT_HOST_DEVICE __host__ __device__
#else
#define INGOT_HOST_DEVICE
#endif

namespace ingot::kernels {

struct BFloat16 {
  uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

// fp32 for bfloat16, or else the type itself.
template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

INGOT_HOST_DEVICE inline float ToFloat(BFloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds to nearest, ties to even. NaN remains NaN.
INGOT_HOST_DEVICE inline BFloat16 ToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

}  // namespace ingot::kernels
