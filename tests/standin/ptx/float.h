// What PTX says about results in fp32: subnormals with .ftz, the one not-a-number, the zeros of min and max.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace ingot::standin::ptx {

inline constexpr uint32_t kNan32 = 0x7fffffff;

inline float Flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline double Flush(double x) { return x; }
inline float Canonical(float x) { return x != x ? std::bit_cast<float>(kNan32) : x; }
inline double Canonical(double x) { return x; }

// The number if the other is not one; +0 is greater than -0.
struct FloatMin {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : std::signbit(a) ? a : b;
  }
};
struct FloatMax {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : std::signbit(a) ? b : a;
  }
};
// Not a number if one is not.
template <typename F>
struct PassNan {
  template <typename T>
  T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : F()(a, b);
  }
};

}  // namespace ingot::standin::ptx
