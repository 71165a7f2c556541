// JSON numbers as automata, with bounds compared digit by digit.
//
// Spellings that are sampled:
// - Integers: 64 bits, no "-0", no fraction, no exponent.
// - Numbers without bounds or multipleOf: up to 18 digits before and 17 after the point, an exponent of up to two
//   digits.
// - Numbers with bounds or multipleOf: the same digits, no exponent.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/dfa.h"

namespace ingot::grammar {

// An exact decimal without leading zeros before the point (0 is "0") and without trailing zeros after it.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  // nullopt: `text` is not a JSON number, or has more than 400 digits on one side of the point.
  static std::optional<Decimal> Parse(std::string_view text);
  static std::optional<Decimal> Of(double value);
};
// Negative, 0 or positive if `a` is below, equal to or above `b`.
int Compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  bool integer = false;
  std::optional<Decimal> low, high;
  bool low_excluded = false, high_excluded = false;
  std::optional<Decimal> multiple_of;  // above 0; at most kMaxStepDigits digits, not counting zeros at its end

  bool Holds(const Decimal& value) const;
  // Whether any number within the bounds has few enough digits to be spelled.
  bool CanBeSpelled() const;
};
inline constexpr size_t kMaxStepDigits = 9, kMaxStepZeros = 9;

// The spellings of the numbers in the range. May be empty.
absl::StatusOr<Dfa> NumberDfa(const NumberRange& range, Budget& budget);

}  // namespace ingot::grammar
