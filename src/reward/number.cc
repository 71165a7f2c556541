#include "reward/number.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"

namespace ingot::reward {
namespace {

using Integer = boost::multiprecision::cpp_int;

// A double can represent every integer up to this one.
constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53
// The decimal digits needed to distinguish any two doubles.
constexpr size_t kDoubleDigits = 17;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Reads the digits and exponent in `text`, which std::from_chars has parsed as a finite number.
void ReadDecimal(std::string_view text, Number* number) {
  number->negative = text.starts_with('-');
  if (number->negative) text.remove_prefix(1);
  const size_t e = text.find_first_of("eE");
  const size_t point = text.find('.');
  number->digits = std::string(text.substr(0, e));
  if (point != std::string_view::npos) {
    number->exponent = -static_cast<int64_t>(number->digits.size() - point - 1);
    number->digits.erase(point, 1);
  }
  number->digits.erase(0, number->digits.find_first_not_of('0'));  // only zeros
  if (number->digits.empty()) {
    *number = {.negative = number->negative};
    return;
  }
  const size_t length = number->digits.find_last_not_of('0') + 1;
  number->exponent += static_cast<int64_t>(number->digits.size() - length);
  number->digits.resize(length);
  if (e == std::string_view::npos) return;
  std::string_view written = text.substr(e + 1);
  if (written.starts_with('+')) written.remove_prefix(1);
  int64_t shift = 0;  // Stays 0 if it does not fit. The number is then outside the range of doubles and is rejected.
  std::from_chars(written.data(), written.data() + written.size(), shift);
  number->exponent += shift;
}

// Returns log10 of the number, rounded down.
int64_t Magnitude(const Number& number) { return number.exponent + static_cast<int64_t>(number.digits.size()) - 1; }

// Returns the integer number * 10^-exponent. REQUIRES: exponent <= number.exponent.
Integer Scaled(const Number& number, int64_t exponent) {
  const auto shift = static_cast<unsigned>(number.exponent - exponent);
  const Integer magnitude = Integer(number.digits) * boost::multiprecision::pow(Integer(10), shift);
  return number.negative ? Integer(-magnitude) : magnitude;
}

// Returns the shortest decimal that reads back as `value`.
Number DecimalOf(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return *ParseNumber(std::string_view(text, end));
}

// Returns |a| * |b| as digits and an exponent.
Number ProductOfSizes(const Number& a, const Number& b) {
  Number product;
  product.digits = Integer(Integer(a.digits) * Integer(b.digits)).str();
  product.exponent = a.exponent + b.exponent;
  return product;
}

bool IsNearExactly(const Number& answer, const Number& expected, const Tolerance& tolerance) {
  const Number absolute = DecimalOf(tolerance.absolute);
  const Number relative = ProductOfSizes(DecimalOf(tolerance.relative), expected);
  const int64_t unit = std::min({answer.exponent, expected.exponent, absolute.exponent, relative.exponent});
  const Integer distance = boost::multiprecision::abs(Integer(Scaled(answer, unit) - Scaled(expected, unit)));
  return distance <= Scaled(absolute, unit) + Scaled(relative, unit);
}

bool IsDigit(std::string_view text, size_t at) { return at < text.size() && absl::ascii_isdigit(text[at]); }

// If `text` is a number with separators between groups of three digits, returns it without them.
std::string WithoutGroupMarks(std::string_view text) {
  size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  std::string plain(text.substr(0, at));
  const size_t first = at;
  while (IsDigit(text, at)) ++at;
  if (at == first || at > first + 3 || text[first] == '0' || at == text.size()) return std::string(text);
  plain += text.substr(first, at - first);
  const char mark = text[at];
  if (mark != ',' && mark != ' ') return std::string(text);
  while (at < text.size() && text[at] == mark) {
    if (!IsDigit(text, at + 1) || !IsDigit(text, at + 2) || !IsDigit(text, at + 3)) return std::string(text);
    plain += text.substr(at + 1, 3);
    at += 4;
    if (IsDigit(text, at)) return std::string(text);
  }
  return plain.append(text.substr(at));  // ParseNumber checks the remaining text
}

}  // namespace

std::optional<double> ParsePythonFloat(std::string_view text) {
  text = Trimmed(text);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
    } else if (i == 0 || !IsDigit(text, i - 1) || !IsDigit(text, i + 1)) {
      return std::nullopt;
    }
  }
  double value = 0;
  // float() rejects nan(1) and 0x10.
  if (plain.find_first_of("(xX") != std::string::npos || !absl::SimpleAtod(plain, &value)) return std::nullopt;
  return value;
}

std::string WithPlainMarks(std::string_view text) {
  return absl::StrReplaceAll(
      absl::string_view(text.data(), text.size()),
      {{"\xe2\x88\x92", "-"}, {"\xc2\xa0", " "}, {"\xe2\x80\x87", " "}, {"\xe2\x80\x89", " "}, {"\xe2\x80\xaf", " "}});
}

std::optional<Number> ParseWrittenNumber(std::string_view text) {
  const std::string plain = WithPlainMarks(text);
  return ParseNumber(WithoutGroupMarks(Trimmed(plain)));
}

std::optional<Number> ParseNumber(std::string_view text) {
  text = Trimmed(text);
  if (text.empty() || text.size() > kLongestNumber) return std::nullopt;
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  Number number;
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [read, fault] = std::from_chars(text.data(), end, value);
  if (read != end || fault == std::errc::invalid_argument || !std::isfinite(value)) return std::nullopt;
  const bool has_exponent = text.find_first_of("eE") != std::string_view::npos;
  const bool in_range = fault == std::errc();
  if (!in_range && has_exponent) return std::nullopt;
  ReadDecimal(text, &number);
  // from_chars reads exponents of more than five digits as smaller exponents.
  const bool is_zero = number.digits == "0";
  if (has_exponent && !is_zero && std::abs(Magnitude(number)) > 400) return std::nullopt;
  number.value = in_range ? value : 0;
  const bool is_integer = !has_exponent && text.find('.') == std::string_view::npos;
  const bool is_small = std::abs(value) < kLargestExactInteger;
  const bool is_printed_double = !is_integer && number.digits.size() <= kDoubleDigits;
  number.is_double = is_zero || (in_range && std::isnormal(value) && (is_small || is_printed_double));
  return number;
}

bool IsNear(const Number& answer, const Number& expected, const Tolerance& tolerance) {
  if (answer.is_double && expected.is_double) {
    return std::abs(answer.value - expected.value) <=
           tolerance.absolute + tolerance.relative * std::abs(expected.value);
  }
  return IsNearExactly(answer, expected, tolerance);
}

}  // namespace ingot::reward
