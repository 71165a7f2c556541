// A decimal number as people and programs write it, and the comparison of two numbers within a tolerance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ingot::reward {

// A longer text is not a number. This bounds the time of a comparison: 65536 digits take about 10 ms.
inline constexpr size_t kLongestNumber = 65536;

struct Number {
  double value = 0;  // the nearest double; 0 = no double is near

  // The number itself: (negative ? -1 : 1) * digits * 10^exponent. `digits` has no zeros at either end; "0" = zero,
  // whose exponent is 0.
  bool negative = false;
  std::string digits = "0";
  int64_t exponent = 0;

  // `value` stands for the number in a comparison: see IsNear.
  bool is_double = true;
};

// Reads [+|-]digits[.digits][e[+|-]digits] with white space around it; one side of the point may lack digits. nullopt:
// any other text, including "inf" and "nan", a text longer than kLongestNumber, or an exponent beyond the range of
// doubles, like "1e999". Written-out digits may exceed that range.
std::optional<Number> ParseNumber(std::string_view text);

// As ParseNumber, and reads a number as people write it: U+2212 as the minus sign, no-break and thin spaces around it,
// and commas or spaces (one kind) between groups of three digits, "1,234,567.5". "1,23" and "0,123" are no numbers.
std::optional<Number> ParseWrittenNumber(std::string_view text);

// `text` as Python's float() reads it: ".75", "1.", "+0.5", "05", "1_000", "1e400" (infinite), "nan"; nullopt = float()
// raises. Other digits than ASCII's are not read.
std::optional<double> ParsePythonFloat(std::string_view text);

// `text` with U+2212 as "-" and each no-break or thin space (U+00A0, U+2007, U+2009, U+202F) as " ".
std::string WithPlainMarks(std::string_view text);

// Both are finite and at least 0.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// |answer - expected| <= absolute + relative * |expected|.
//
// If doubles hold both numbers, the arithmetic uses doubles, so 0.1 and 0.10000000000000001, which print the same
// double, are equal. Otherwise it is exact, and a tolerance counts as the shortest decimal that reads back as its
// double. A double holds zero, numbers below 2^53, and larger numbers with a point or an exponent and at most 17
// digits. It does not hold a longer integer or a number outside the normal range of doubles.
bool IsNear(const Number& answer, const Number& expected, const Tolerance& tolerance);

}  // namespace ingot::reward
