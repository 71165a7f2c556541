#include "reward/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"

namespace ingot::reward {
namespace {

__extension__ typedef __int128 Int128;

std::string Zeros(size_t count) { return std::string(count, '0'); }

bool Near(const std::string& answer, const std::string& expected, double absolute = 0, double relative = 0) {
  const std::optional<Number> a = ParseNumber(answer), b = ParseNumber(expected);
  EXPECT_TRUE(a.has_value()) << answer.substr(0, 80);
  EXPECT_TRUE(b.has_value()) << expected.substr(0, 80);
  return a.has_value() && b.has_value() && IsNear(*a, *b, {absolute, relative});
}

TEST(NumberTest, ReadsDecimalDigitsWithPointExponentAndSign) {
  const auto value = [](const std::string& text) { return ParseNumber(text)->value; };
  EXPECT_EQ(value("42"), 42);
  EXPECT_EQ(value("+42"), 42);
  EXPECT_EQ(value("-42.50"), -42.5);
  EXPECT_EQ(value(" .5\n"), 0.5);
  EXPECT_EQ(value("5."), 5);
  EXPECT_EQ(value("-1.25E+2"), -125);
  EXPECT_EQ(value("4e-2"), 0.04);
  EXPECT_EQ(value("-0"), 0);
  EXPECT_EQ(value("0e999999999999999999999"), 0);
}

TEST(NumberTest, KeepsTheDigitsWithoutZerosAtTheirEnds) {
  const Number number = *ParseNumber("-0012.3400e5");
  EXPECT_TRUE(number.negative);
  EXPECT_EQ(number.digits, "1234");
  EXPECT_EQ(number.exponent, 3);
  EXPECT_EQ(ParseNumber("-0.000")->digits, "0");
  EXPECT_EQ(ParseNumber("-0.000")->exponent, 0);
}

TEST(NumberTest, RejectsOtherTexts) {
  for (const char* text :
       {"",      " ",     "+",     "-",         ".",   "e5",   "1e",     "1e+", "+-1",  "++1",      "--1",   "0x2A",
        "1,000", "1 000", "1_000", "1.000.000", "nan", "-nan", "nan(1)", "inf", "-inf", "infinity", "1e5.0", "4 2"}) {
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
  }
  EXPECT_TRUE(ParseNumber(std::string(kLongestNumber, '7')).has_value());
  EXPECT_FALSE(ParseNumber(std::string(kLongestNumber + 1, '7')).has_value());
}

TEST(NumberTest, ReadsNumbersAsPeopleWriteThem) {
  const auto value = [](const std::string& text) { return ParseWrittenNumber(text).value_or(Number{}).value; };
  EXPECT_EQ(value("1,234"), 1234);
  EXPECT_EQ(value("-1,234,567.5"), -1234567.5);
  EXPECT_EQ(value("1 000"), 1000);
  EXPECT_EQ(value("1\u00a0234"), 1234);
  EXPECT_EQ(value("1\u202f234\u202f567"), 1234567);
  EXPECT_EQ(value("\u00a042\u00a0"), 42);
  EXPECT_EQ(value("\u22125"), -5);
  EXPECT_EQ(value("12,345e2"), 1234500);
  EXPECT_EQ(value("42"), 42);
  for (const char* text :
       {"1,23", "1,2345", "0,123", "1234,567", "1,234 567", ",234", "1,,234", "4 2", "1.000.000", "1 234,5", "$5"}) {
    EXPECT_FALSE(ParseWrittenNumber(text).has_value()) << text;
  }
}

TEST(NumberTest, ReadsWhatPythonsFloatReads) {
  const auto value = [](const char* text) { return ParsePythonFloat(text); };
  for (const auto& [text, number] : std::initializer_list<std::pair<const char*, double>>{
           {".75", 0.75}, {"1.", 1}, {"+0.5", 0.5}, {"05", 5}, {" -1e-1\n", -0.1}, {"1_000.5", 1000.5}, {"-0", 0}}) {
    EXPECT_EQ(value(text), number) << text;
  }
  EXPECT_TRUE(std::isinf(value("1e400").value()));
  EXPECT_TRUE(std::isinf(value("-Infinity").value()));
  EXPECT_TRUE(std::isnan(value("NaN").value()));
  for (const char* text : {"", " ", ".", "+", "+-1", "1__0", "_1", "1_", "1_.5", "0x10", "1,5", "nan(1)", "e5", "1e",
                           "true", "1 2", "1f"}) {
    EXPECT_EQ(value(text), std::nullopt) << text;
  }
}

// None of them may take memory for a number of its exponent's size.
TEST(NumberTest, RejectsExponentsBeyondTheRangeOfDoubles) {
  for (const std::string text :
       {"1e999", "-1e309", "1e-999", "1e999999999", "1e-999999999", "1e99999999999999999999"}) {
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
  }
  // 65,000 zeros behind the point and an exponent that std::from_chars counts as 65,536.
  EXPECT_FALSE(ParseNumber(absl::StrCat("0.", Zeros(65000), "1e6553600000")).has_value());
  EXPECT_EQ(ParseNumber(absl::StrCat("0.", Zeros(65000), "1e65001"))->value, 1);
}

TEST(NumberTest, ComparesDoublesAsDoubles) {
  EXPECT_TRUE(Near("0.1", "0.10000000000000001"));
  EXPECT_TRUE(Near("0.1", "0.1000000000000000055511151231257827"));
  EXPECT_FALSE(Near("0.3", "0.30000000000000004"));
  EXPECT_TRUE(Near("6.02214076e23", "6.0221407599999999e23"));
  EXPECT_TRUE(Near("-1e300", "-1000000000000000000e282"));
  EXPECT_TRUE(Near("9007199254740991", "9007199254740991.0"));
  EXPECT_FALSE(Near("-7", "7"));
  EXPECT_TRUE(Near("-7", "7", 14));
  EXPECT_FALSE(Near("-7", "7", 13.9));
}

TEST(NumberTest, ComparesLongIntegersByDigitsAtEveryTolerance) {
  EXPECT_FALSE(Near("9007199254740992", "9007199254740993"));
  EXPECT_FALSE(Near("9007199254740992", "9007199254740993", 0.5));
  EXPECT_TRUE(Near("9007199254740992", "9007199254740993", 1));
  EXPECT_FALSE(Near("-9007199254740993", "9007199254740993", 1e9));
  EXPECT_FALSE(Near("9007199254740993", "9007199254740992.0"));
  EXPECT_TRUE(Near("602214076000000000000000", "6.02214076e23"));
  EXPECT_FALSE(Near("602214076000000000000001", "6.02214076e23"));
  EXPECT_TRUE(Near("1000000000000000000001", "1000000000000000000000", 0, 1e-21));
  EXPECT_FALSE(Near("1000000000000000000002", "1000000000000000000000", 0, 1e-21));
  EXPECT_FALSE(Near("12345678901234567890.5", "12345678901234567891.5", 0.1));
  EXPECT_TRUE(Near("12345678901234567890.5", "12345678901234567890.6", 0.1));
}

TEST(NumberTest, ComparesIntegersThatNoDoubleReaches) {
  const std::string expected = "1" + Zeros(319) + "7";  // 10^320 + 7
  EXPECT_FALSE(Near("5", expected, 0, 0.1));
  EXPECT_FALSE(Near("5", expected, 1e300, 0.5));
  EXPECT_TRUE(Near("5", expected, 0, 1));
  EXPECT_FALSE(Near("-5", expected, 0, 1));
  EXPECT_TRUE(Near(expected, expected));
  EXPECT_TRUE(Near("+00" + expected + ".0", expected));
  EXPECT_FALSE(Near("1" + Zeros(320), expected, 6.9));
  EXPECT_TRUE(Near("1" + Zeros(320), expected, 7));
  EXPECT_TRUE(Near("11" + Zeros(319), expected, 0, 0.1));
  EXPECT_FALSE(Near("12" + Zeros(319), expected, 0, 0.1));
  EXPECT_FALSE(Near("-" + expected, expected, 0, 1.9));
  EXPECT_TRUE(Near("-" + expected, expected, 0, 2));
  EXPECT_FALSE(Near(expected, "5", 0, std::numeric_limits<double>::max()));
}

TEST(NumberTest, ComparesDecimalsThatNoDoubleReaches) {
  const std::string tiny = "0." + Zeros(400) + "1";
  EXPECT_TRUE(Near(tiny, tiny));
  EXPECT_TRUE(Near("." + Zeros(400) + "100", tiny));
  EXPECT_FALSE(Near("0." + Zeros(400) + "2", tiny));
  EXPECT_FALSE(Near(tiny, "0"));
  EXPECT_FALSE(Near("0", tiny, 0, 0.9));
  EXPECT_TRUE(Near("0", tiny, 0, 1));
  EXPECT_TRUE(Near(tiny, "0", 5e-324));
  EXPECT_TRUE(Near("0." + Zeros(400) + "11", tiny, 0, 0.1));
  EXPECT_FALSE(Near("0." + Zeros(400) + "12", tiny, 0, 0.1));
  EXPECT_TRUE(Near("1e-310", "1e-310"));
  EXPECT_FALSE(Near("1e-310", "1.0000000000000000000001e-310"));
}

// A tolerance of 0.3 is the decimal 0.3, not the double a little below it.
TEST(NumberTest, TakesATolerancesDecimalAsItIsPrinted) {
  EXPECT_TRUE(Near("10000000000000000000000.3", "10000000000000000000000", 0.3));
  EXPECT_FALSE(Near("10000000000000000000000.30000001", "10000000000000000000000", 0.3));
}

TEST(NumberTest, ComparesTheLongestNumbersInTime) {
  const std::string nines(kLongestNumber, '9');
  const std::string other = nines.substr(0, kLongestNumber - 1) + "8";
  EXPECT_FALSE(Near(other, nines, 0.5, 0));
  EXPECT_TRUE(Near(other, nines, 1, 0));
  EXPECT_FALSE(Near("0." + Zeros(60000) + "1", nines, 0, 0.5));
}

// Integers of 128 bits are a reference: digits decide as they do, around every edge of the tolerance.
TEST(NumberTest, AgreesWithIntegersOf128Bits) {
  const auto print = [](Int128 value) {
    std::string digits;
    for (Int128 rest = value < 0 ? -value : value; rest > 0 || digits.empty(); rest /= 10) {
      digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
    }
    return value < 0 ? "-" + digits : digits;
  };
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const Int128 expected = (Int128{static_cast<int64_t>(random() >> 1)} << 40) * (random() % 2 == 0 ? 1 : -1);
    const int64_t tolerance = static_cast<int64_t>(random() % (uint64_t{1} << 50));
    for (const int64_t beyond : {-1, 0, 1}) {
      const Int128 distance = static_cast<Int128>(tolerance) + beyond;
      for (const int sign : {-1, 1}) {
        const std::string answer = print(expected + sign * distance);
        EXPECT_EQ(Near(answer, print(expected), static_cast<double>(tolerance)),
                  (distance < 0 ? -distance : distance) <= tolerance)
            << answer << " expected " << print(expected) << " within " << tolerance;
      }
    }
  }
}

}  // namespace
}  // namespace ingot::reward
