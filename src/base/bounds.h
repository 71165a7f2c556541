// Bounds for numeric options. Bind functions declare them, and Schema enforces them. NaN and infinity are always
// rejected.
#pragma once

#include <limits>
#include <string>

namespace ingot::base {

// The allowed range of a number.
struct Bound {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double low = -kNone;
  double high = kNone;
  bool above_low = false;   // `low` itself is out of bounds
  bool below_high = false;  // `high` itself is out of bounds
  bool or_zero = false;     // 0 is allowed as well

  // Also allows 0. Used for options where 0 means off.
  Bound OrZero() const {
    Bound bound = *this;
    bound.or_zero = true;
    return bound;
  }

  bool Contains(double value) const;
  bool limits() const { return low > -kNone || high < kNone; }
  // Returns "greater than 0", "0 or greater", "in (0, 1]", "0, or greater than 1", or "" if there are no limits.
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
// A TCP port in the configuration. 0 has a special meaning.
inline Bound Port() { return InRange(0, 65535); }

}  // namespace ingot::base
