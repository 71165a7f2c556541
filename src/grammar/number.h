// JSON numbers as automata, with bounds compared digit by digit.
//
// What is spelled: integers in 64 bits, without "-0", fraction or exponent. Numbers without bounds: up to 18 digits
// before and 17 after the point, and an exponent of up to two digits. Numbers with bounds: the same digits, no
// exponent; so with a step.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/dfa.h"

namespace ingot::grammar {

// An exact decimal: no leading zeros before the point (0 is "0"), no trailing ones behind it.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  // From what a JSON number says, or "inf"-like text: nullopt. At most 400 digits on each side.
  static std::optional<Decimal> Parse(std::string_view text);
  static std::optional<Decimal> Of(double value);
};
// <0, 0, >0.
int Compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  bool integer = false;
  std::optional<Decimal> low, high;
  bool low_excluded = false, high_excluded = false;
  std::optional<Decimal> multiple_of;  // at most kMaxStepDigits digits (zeros at its end apart), above 0

  bool Holds(const Decimal& value) const;
  // Whether the bounds are within reach of the digits that are spelled.
  bool CanBeSpelled() const;
};
inline constexpr size_t kMaxStepDigits = 9, kMaxStepZeros = 9;

// The numbers in the range. May be empty.
absl::StatusOr<Dfa> NumberDfa(const NumberRange& range, Budget& budget);

}  // namespace ingot::grammar
