// Builds automata for JSON numbers. Bounds are compared digit by digit.
//
// The following spellings can be sampled:
// - Integers: 64 bits, no "-0", no fraction, no exponent.
// - Numbers without bounds or multipleOf: up to 18 digits before the point and 17 after it, and an exponent of up to
//   two digits.
// - Numbers with bounds or multipleOf: the same digits, no exponent.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/dfa.h"

namespace ingot::grammar {

// An exact decimal without leading zeros before the point (0 is "0") or trailing zeros after it.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;

  // Returns nullopt if `text` is not a JSON number or has more than 400 digits on one side of the point.
  static std::optional<Decimal> Parse(std::string_view text);
  static std::optional<Decimal> Of(double value);
};
// Returns a negative number, 0, or a positive number if `a` is less than, equal to, or greater than `b`.
int Compare(const Decimal& a, const Decimal& b);

struct NumberRange {
  bool integer = false;
  std::optional<Decimal> low, high;
  bool low_excluded = false, high_excluded = false;
  std::optional<Decimal> multiple_of;  // positive; at most kMaxStepDigits digits, not counting trailing zeros

  bool Holds(const Decimal& value) const;
  // Returns whether any number within the bounds is short enough to be written.
  bool CanBeSpelled() const;
};
inline constexpr size_t kMaxStepDigits = 9, kMaxStepZeros = 9;

// Returns an automaton that accepts all spellings of numbers in the range. It may be empty.
absl::StatusOr<Dfa> NumberDfa(const NumberRange& range, Budget& budget);

}  // namespace ingot::grammar
