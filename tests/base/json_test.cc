#include "base/json.h"
#include "base/big_integer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace ingot::base {
namespace {

TEST(JsonTest, ErrorsNameLineAndColumn) {
  const auto value = ParseJson("{\"a\": 1,\n \"b\": }");
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.status().message().find("line 2, column 7"), std::string::npos) << value.status();
}

TEST(JsonTest, TextAfterTheValueIsAnError) { EXPECT_FALSE(ParseJson("{} x").ok()); }

TEST(JsonTest, DeepNestingIsRejectedNotRecursedInto) { EXPECT_FALSE(ParseJson(std::string(100000, '[')).ok()); }

TEST(JsonTest, DoublesPrintAsTheShortestDecimal) {
  EXPECT_EQ(PrintJson(*ParseJson("[1.0, 0.1, 1e5, 0.0001, 1e300, 3]")), "[1.0,0.1,100000.0,0.0001,1e+300,3]");
}

TEST(JsonTest, PrintsAllButDoublesAsBoostDoes) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  json::object object;
  object[bytes] = bytes;
  object[""] = json::array{json::array{}, json::object{}, json::object{{"a", json::object{}}, {"{", "{"}, {"b", 1}}};
  object["numbers"] = json::array{0, -1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<uint64_t>::max()};
  object["others"] = json::array{true, false, nullptr, "", "\"", "\\\\", "\x7f", "ü\n", "a\tb"};
  EXPECT_EQ(PrintJson(object), json::serialize(object));
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 40, ' ');
    for (char& c : text) c = random() % 2 == 0 ? static_cast<char>(random() % 256) : "\"\\\n a"[random() % 5];
    std::string appended = "x";
    AppendJsonString(text, appended);
    EXPECT_EQ(appended, "x" + json::serialize(json::value(text)));
  }
}

TEST(JsonTest, IntegersOfAnySizeKeepTheirDigitsIfAsked) {
  const std::string text =
      R"({"b":[18446744073709551616,-9223372036854775809,18446744073709551615,-9223372036854775808],"a":{"x":340282366920938463463374607431768211456},"s":"18446744073709551616","d":1e30,"z":100000000000000000000.0})";
  const auto value = ParseJsonExactly(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(
      PrintJson(*value),
      R"({"b":[18446744073709551616,-9223372036854775809,18446744073709551615,-9223372036854775808],"a":{"x":340282366920938463463374607431768211456},"s":"18446744073709551616","d":1e+30,"z":1e+20})");
  EXPECT_TRUE(CanonicalJson(*value).starts_with(R"({"a":{"x":340282366920938463463374607431768211456},"b":[1844)"));
  EXPECT_EQ(BigInteger(value->at("b").at(1)), "-9223372036854775809");
  EXPECT_EQ(BigInteger(value->at("b").at(2)), "");
  EXPECT_EQ(BigInteger(value->at("s")), "");
  EXPECT_EQ(PrintJson(*ParseJsonExactly(" 99999999999999999999\n")), "99999999999999999999");
  const std::string many(5000, '7');  // so long that the parser reads it in several parts
  EXPECT_EQ(PrintJson(*ParseJsonExactly("[" + many + "]")), "[" + many + "]");
  EXPECT_EQ(BigInteger(*ParseJsonExactly(R"({"\u00ff": "1"})")), "") << "text from outside has no such key";
  EXPECT_FALSE(ParseJsonExactly("{\"\xff\": \"1\"}").ok());
  for (const char* wrong : {"18446744073709551616 x", "[18446744073709551616", "018446744073709551616"})
    EXPECT_EQ(ParseJsonExactly(wrong).status(), ParseJson(wrong).status()) << wrong;
}

TEST(JsonTest, CanonicalFormSortsKeysAtEveryDepth) {
  EXPECT_EQ(CanonicalJson(*ParseJson(R"({"b": {"d": 1, "c": 2}, "a": []})")), R"({"a":[],"b":{"c":2,"d":1}})");
}

// The value that Boost.JSON alone reads, or its error.
absl::StatusOr<json::value> ByBoost(const std::string& text) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 100;
  json::value value = json::parse(text, error, {}, options);
  if (error) return absl::InvalidArgumentError(error.message());
  return value;
}

bool Same(const json::value& a, const json::value& b) {
  if (a == b) return true;
  if (a.is_double() && b.is_double())
    return std::abs(a.get_double() - b.get_double()) <= 1e-15 * std::abs(b.get_double());
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    return std::equal(a.get_array().begin(), a.get_array().end(), b.get_array().begin(), b.get_array().end(), Same);
  }
  if (!a.is_object()) return a == b;
  return std::equal(a.get_object().begin(), a.get_object().end(), b.get_object().begin(), b.get_object().end(),
                    [](const auto& x, const auto& y) { return x.key() == y.key() && Same(x.value(), y.value()); });
}

void ExpectAsBoost(const std::string& text) {
  const auto ours = ParseJson(text), boost = ByBoost(text);
  // Boost refuses exponents of ten and more digits. ParseJson reads such a number as 0 or infinite.
  if (ours.ok() && boost.status().message() == "exponent overflow") return;
  ASSERT_EQ(ours.ok(), boost.ok()) << text << "\n" << ours.status() << boost.status();
  if (!ours.ok()) return;
  ASSERT_TRUE(Same(*ours, *boost)) << text << "\n" << PrintJson(*ours) << "\n" << PrintJson(*boost);
}

TEST(JsonTest, AcceptsTheSameTextAsBoost) {
  for (const char* text : {"",
                           " ",
                           "0",
                           "-0",
                           "-0.0",
                           "1e5",
                           "-1E-5",
                           "9223372036854775807",
                           "9223372036854775808",
                           "18446744073709551615",
                           "18446744073709551616",
                           "-9223372036854775808",
                           "-9223372036854775809",
                           "123456789012345678901234567890",
                           "1e999",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "0x1",
                           "nan",
                           "Infinity",
                           "true",
                           "nul",
                           "\"\"",
                           "\"a\\u0000b\"",
                           "\"\\ud83d\\ude00\"",
                           "\"\\ud83d\"",
                           "\"\\ude00\\ud83d\"",
                           "\"\\q\"",
                           "\"a\nb\"",
                           "\"\xff\"",
                           "\"\xc3\xa9\"",
                           "\"\xed\xa0\x80\"",
                           "[1,]",
                           "[1 2]",
                           "{\"a\":1,\"b\":2,\"a\":3}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{} {}",
                           "[]x",
                           " [ ] \n\t\r",
                           "\xef\xbb\xbf{}",
                           "'a'",
                           "// c\n1",
                           "[\"\\/\\b\\f\\n\\r\\t\\\"\\\\\"]"}) {
    ExpectAsBoost(text);
  }
  ExpectAsBoost(std::string("1\0", 2));
  for (int depth = 95; depth < 105; ++depth) {
    ExpectAsBoost(std::string(depth, '[') + std::string(depth, ']'));
    std::string objects = "1";
    for (int i = 0; i < depth; ++i) objects = "{\"k\":" + objects + "}";
    ExpectAsBoost(objects);
  }
}

TEST(JsonTest, AcceptsTheSameRandomTextAsBoost) {
  const std::string whole =
      R"({"model":"m","n":[1,-2.5,1e3,18446744073709551615,null,true,false],"messages":[{"role":"user","content":)"
      "\"a\\n\\u00e9\xc3\xa9\\\"\"}, {\"content\":null,\"x\":{\"y\":[[],{}]}}],\"n\":0.1 }";
  ExpectAsBoost(whole);
  std::mt19937 random(3);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = whole;
    for (int edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, 1, "0{}[]\",:-e.\\u"[random() % 13]);
          break;
        default:
          text.resize(at);
      }
    }
    ExpectAsBoost(text);
  }
}

TEST(JsonTest, ErrorsTellExtraTextFromIncompleteText) {
  const auto fault = [](std::string_view text) { return std::string(ParseJson(text).status().message()); };
  for (const char* text : {"{} x", "{} {}", "[1]]", "1 2", "{}\t,"}) {
    EXPECT_NE(fault(text).find("there is more text after the value"), std::string::npos) << text << fault(text);
  }
  EXPECT_EQ(fault("{} x"), "malformed JSON at line 1, column 4: there is more text after the value");
  EXPECT_NE(fault("{").find("incomplete"), std::string::npos);
  EXPECT_NE(fault("").find("incomplete"), std::string::npos);
}

TEST(JsonTest, ValuesOfAnArenaOutliveTheirReader) {
  json::value kept;
  {
    const auto parsed = ParseJson(R"({"a":["some text that is longer than what is held in place", 2]})",
                                  json::make_shared_resource<json::monotonic_resource>());
    kept = parsed->at("a");
  }
  EXPECT_EQ(PrintJson(kept), R"(["some text that is longer than what is held in place",2])");
}

}  // namespace
}  // namespace ingot::base
