// Bounds of numbers in options. Bind functions declare them, and Schema enforces them: NaN and the infinities are within
// no bound.
#pragma once

#include <limits>
#include <string>

namespace ingot::base {

// The values that a number may take.
struct Bound {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double low = -kNone;
  double high = kNone;
  bool above_low = false;   // `low` itself is out of bounds
  bool below_high = false;  // `high` itself is out of bounds
  bool or_zero = false;     // 0 is within the bound, too

  // Also allows 0, where 0 turns the option off.
  Bound OrZero() const {
    Bound bound = *this;
    bound.or_zero = true;
    return bound;
  }

  bool Contains(double value) const;
  bool limits() const { return low > -kNone || high < kNone; }
  // "greater than 0", "0 or greater", "in (0, 1]", "0, or greater than 1"; empty without limits.
  std::string Text() const;
};

inline Bound Above(double low) { return {.low = low, .above_low = true}; }
inline Bound AtLeast(double low) { return {.low = low}; }
inline Bound Positive() { return Above(0); }
inline Bound NotNegative() { return AtLeast(0); }
// [low, high]
inline Bound InRange(double low, double high) { return {.low = low, .high = high}; }
// (low, high]
inline Bound LeftOpen(double low, double high) { return {.low = low, .high = high, .above_low = true}; }
// [low, high)
inline Bound RightOpen(double low, double high) { return {.low = low, .high = high, .below_high = true}; }
// (low, high)
inline Bound Open(double low, double high) { return {.low = low, .high = high, .above_low = true, .below_high = true}; }
// (0, 1]
inline Bound Fraction() { return LeftOpen(0, 1); }
// A TCP port that the configuration names; 0 has a meaning of its own.
inline Bound Port() { return InRange(0, 65535); }

}  // namespace ingot::base
