// Parses decimal numbers as written by people and programs, and compares two numbers within a tolerance.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ingot::reward {

// Longer strings are not treated as numbers. This limits the time per comparison: 65536 digits take about 10 ms.
inline constexpr size_t kLongestNumber = 65536;

struct Number {
  double value = 0;  // the closest double; 0 = none is close

  // The exact number is (negative ? -1 : 1) * digits * 10^exponent. `digits` has no leading or trailing zeros. Zero is
  // "0" with exponent 0.
  bool negative = false;
  std::string digits = "0";
  int64_t exponent = 0;

  // True = comparisons may use `value` (see IsNear).
  bool is_double = true;
};

// Parses [+|-]digits[.digits][e[+|-]digits] with optional surrounding whitespace. Digits may be missing on one side of
// the point. Returns nullopt for any other string, including "inf" and "nan", for strings longer than kLongestNumber,
// and for an exponent outside the range of doubles, such as "1e999". Numbers without an exponent may exceed that range.
std::optional<Number> ParseNumber(std::string_view text);

// Same as ParseNumber, but also accepts forms that people write: U+2212 as the minus sign, no-break and thin spaces
// around the number, and commas or spaces (not both) between groups of three digits, as in "1,234,567.5". "1,23" and
// "0,123" are not numbers.
std::optional<Number> ParseWrittenNumber(std::string_view text);

// Parses `text` as Python's float() does: ".75", "1.", "+0.5", "05", "1_000", "1e400" (infinite), "nan". Returns
// nullopt if float() would raise an error. Only ASCII digits are supported.
std::optional<double> ParsePythonFloat(std::string_view text);

// Returns `text` with U+2212 replaced by "-", and with no-break and thin spaces (U+00A0, U+2007, U+2009, U+202F)
// replaced by " ".
std::string WithPlainMarks(std::string_view text);

// Both values are finite and at least 0.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// Returns whether |answer - expected| <= absolute + relative * |expected|.
//
// If doubles can represent both numbers, the comparison uses doubles, so 0.1 and 0.10000000000000001 are equal because
// they are the same double. Otherwise the comparison is exact, and a tolerance is the shortest decimal that converts to
// its double. Doubles can represent zero, numbers below 2^53, and larger numbers that have a point or an exponent and
// at most 17 digits. They cannot represent longer integers or numbers outside the normal range of doubles.
bool IsNear(const Number& answer, const Number& expected, const Tolerance& tolerance);

}  // namespace ingot::reward
